from datetime import datetime, timedelta
from typing import get_args

import msgspec
import pytest

from pixconnect.features.statements.rules import Language, MovedItem
from pixconnect.kernel.rules.rail import MovementKind
from support.records import AT
from support.statement import LINES, make_line, make_refund_line, make_statement


def test_an_empty_statement_has_no_lines_although_numbers_go_on() -> None:
    assert make_statement([]).extent.lines_count == 0
    assert make_statement(LINES).extent.lines_count == 3
    # A reversed period ends long before it begins.
    assert msgspec.structs.replace(make_statement([]).extent, last_number=0).lines_count == 0


@pytest.mark.parametrize(
    ("final_at", "made_at", "closed_at"),
    [
        (AT + timedelta(days=1), AT + timedelta(days=2), AT + timedelta(days=1)),
        (AT + timedelta(days=2), AT + timedelta(days=1), AT + timedelta(days=1)),
        (AT + timedelta(days=2), AT - timedelta(seconds=1), AT),
    ],
    ids=["a span that is over", "a span that ends in the future", "a last line ahead of the clock"],
)
def test_a_closing_balance_is_never_of_the_future(final_at: datetime, made_at: datetime, closed_at: datetime) -> None:
    assert make_statement(final_at=final_at, made_at=made_at).closed_at == closed_at


def test_a_line_whose_other_side_has_no_name_says_what_it_is() -> None:
    nobody = msgspec.structs.replace(make_line().counterparty, name="")
    assert make_line(counterparty=nobody, direction="OUT").describe("en") == "Pix sent"
    assert make_refund_line(counterparty=nobody, description=None).describe("pt") == "Devolução enviada"
    # A refund without a description gets ours.
    assert make_refund_line(description="").describe("en") == "Refund sent to Joana Prado"


@pytest.mark.parametrize("language", get_args(Language))
def test_each_kind_of_movement_has_words_of_its_own(language: Language) -> None:
    moved = [MovedItem(kind=kind, item_id="1", end_to_end_id=None) for kind in get_args(MovementKind)]
    texts = [make_line(movement=each, description=None).describe(language) for each in moved]
    assert len({text for text in texts if text}) == len(moved)
