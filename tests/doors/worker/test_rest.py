"""How long a part of the worker waits for news."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixconnect.doors.worker.leases import APART_S, EARLY_S, Poller, Rest, until_beat


def test_it_looks_less_and_less_often_while_nothing_is_found() -> None:
    rest = Rest(0.25, 1.0, Poller.DUE)
    found = (True, False, False, False, False, True, False)
    waits = [rest.after(8.0, has_found=has_found) for has_found in found]
    assert waits == pytest.approx([0.25, 0.25, 0.5, 1.0, 1.0, 0.25, 0.25])


def test_those_that_rest_look_one_shortly_after_the_other() -> None:
    waits = [until_beat(1.0, looker, 12.3) for looker in Poller]
    assert waits == pytest.approx([0.7 + looker * APART_S for looker in Poller])


@given(st.floats(0, 1e7), st.sampled_from([0.25, 1.0, 2.0]), st.sampled_from(Poller))
def test_a_beat_is_never_met_twice_by_a_timer_that_ends_early(now_s: float, every_s: float, looker: Poller) -> None:
    wait_s = until_beat(every_s, looker, now_s)
    assert EARLY_S <= wait_s <= every_s + EARLY_S
    assert until_beat(every_s, looker, now_s + wait_s - EARLY_S / 2) == pytest.approx(every_s + EARLY_S / 2)
