"""What is under way at once is bounded, and a bound that is reached is reached for whoever has filled it."""

import pytest

from pixconnect.domain.frame import errors
from pixconnect.flow.admission import Admission


def test_one_party_has_all_of_it_and_room_again_when_one_has_ended() -> None:
    admission = Admission(3)
    for _ in range(3):
        admission.enter("greedy")
    with pytest.raises(errors.ServiceUnavailable, match="nothing was done"):
        admission.enter("greedy")
    admission.leave("greedy")
    admission.enter("greedy")


def test_who_has_less_than_its_share_is_let_in_however_full_it_is() -> None:
    admission = Admission(4)
    for _ in range(4):
        admission.enter("greedy")
    for party in ("first", "second", "third"):
        admission.enter(party)
        with pytest.raises(errors.ServiceUnavailable):
            admission.enter("greedy")
    # Four parties with a share of one each.
    with pytest.raises(errors.ServiceUnavailable):
        admission.enter("first")


def test_a_party_without_anything_under_way_is_forgotten() -> None:
    admission = Admission(2)
    for _ in range(2):
        admission.enter("greedy")
    admission.enter("calm")
    admission.leave("calm")
    # Its share is not kept for it: the greedy one would have been refused at two of three.
    admission.leave("greedy")
    admission.enter("greedy")
