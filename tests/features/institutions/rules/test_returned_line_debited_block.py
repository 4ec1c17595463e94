"""Which lines take blocked money off the account, and return it."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.rules.returned_line import BlockOfAccount, join_blocks


def line(item_id: str, cents: int, kind: Any = "judicial", text: str = "BLOQUEIO JUDICIAL") -> InstitutionItem:
    return InstitutionItem(
        item_id=item_id,
        day=date(2026, 7, 1),
        settled_at=None,
        direction="IN" if cents > 0 else "OUT",
        amount_cents=abs(cents),
        kind=kind,
        text=text,
    )


COURT = BlockOfAccount(id=7, kind="judicial", held_cents=500)
CONTEST = BlockOfAccount(id=8, kind="med", held_cents=500)
DEBITED = BlockOfAccount(id=7, kind="judicial", held_cents=500, debited_cents=500)
MED = ("pix", "PIX BLOQUEIO MED")


@pytest.mark.parametrize(
    ("lines", "blocks", "joined", "waiting"),
    [
        ([line("D", -500)], [COURT], [("D", 7, False)], set[str]()),
        ([line("D", -500), line("C", 500)], [COURT], [("D", 7, False), ("C", 7, True)], set[str]()),
        ([line("C", 500)], [DEBITED], [("C", 7, True)], set[str]()),
        ([line("D", -500, *MED)], [COURT, CONTEST], [("D", 8, False)], set[str]()),
        ([line("D", -500), line("E", -500)], [COURT], [("D", 7, False)], set[str]()),
        # Another amount may be a part of the block.
        ([line("D", -400)], [COURT], [], {"D"}),
        ([line("D", -500, *MED)], [COURT], [], set[str]()),
        ([line("D", -500, "other", "TARIFA")], [COURT, CONTEST], [], set[str]()),
        # Older words of banks for a boleto.
        ([line("D", -500, "other", "PAG BLOQUETO")], [CONTEST], [], set[str]()),
        ([line("D", -400, "other", "PAG BLOQUETO")], [CONTEST], [], set[str]()),
        ([line("D", -500)], [DEBITED], [], set[str]()),
        ([line("C", 500)], [COURT], [], set[str]()),
    ],
)
def test_a_line_is_joined_to_a_block_of_its_kind_and_amount(
    lines: list[InstitutionItem], blocks: list[BlockOfAccount], joined: list[tuple[str, int, bool]], waiting: set[str]
) -> None:
    joins, waits = join_blocks(lines, blocks)
    assert ([(join.item_id, join.key[1], join.is_reversal) for join in joins], waits) == (joined, waiting)


def test_of_a_block_of_which_a_part_was_returned_the_rest_is_given_back() -> None:
    block = BlockOfAccount(id=8, kind="med", held_cents=200, debited_cents=500, taken_cents=300)
    joins, _ = join_blocks([line("C", 500, *MED), line("E", 200, *MED)], [block])
    assert [join.item_id for join in joins] == ["E"]
