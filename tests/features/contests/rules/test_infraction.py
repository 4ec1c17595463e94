"""How much an institution may take after an answer to an infraction."""

import pytest

from pixconnect.features.contests.rules.infraction import InfractionClosed, check_defence
from pixconnect.kernel.rules.rail import Abilities
from pixconnect.platform.base import errors

TAKES_WORDS = Abilities(contests="theirs", defence_length_max=10)


def test_an_answer_is_as_long_as_the_rail_takes_it() -> None:
    check_defence(TAKES_WORDS, "x" * 10)
    for text in ("!", "sim", "\N{PARTY POPPER}"):
        check_defence(TAKES_WORDS, text)
    for text in ("", " \n", "\u200b", "\u2060 \ufeff\u202e", "\u00a0\u034f\ufe0f", "x" * 11):
        with pytest.raises(errors.BadRequest, match="text: must have 1 to 10 characters"):
            check_defence(TAKES_WORDS, text)


def test_where_no_answer_is_taken_its_length_is_not_what_is_wrong() -> None:
    with pytest.raises(InfractionClosed, match="takes no answers"):
        check_defence(Abilities(), "delivered")
