"""Which lines take money that the institution has blocked off the account, and give it back.

Such a line is joined to its block: the money stays the holder's, blocked, until the institution reports how the block ended.
The line may be read after that.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from typing import Final

from msgspec import Struct

from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.rules.joining import DAYS_APART_MAX, ItemJoin
from pixconnect.kernel.rules.block_report import BlockKind

CREDITED_WITHIN: Final = timedelta(days=5)
"""So long after a block has ended the line may come that gives its money back."""
KEPT_PREFIX: Final = "kept:"
_DIGEST_LENGTH: Final = 48
_APART: Final = timedelta(days=DAYS_APART_MAX)
_WORDS: Final = re.compile(r"\b(DES)?BLOQ(?!UETO)", re.IGNORECASE)
_ORDERED: Final = frozenset[BlockKind]({"judicial", "administrative"})


class BlockOfAccount(Struct, frozen=True, kw_only=True):
    """A block whose debit is not known, or is joined and not given back."""

    id: int
    kind: BlockKind
    held_cents: int
    """What it holds; of one that has ended, what it had covered."""
    days: tuple[date, date] | None = None
    """The first and the last of one that has ended."""
    debited_cents: int | None = None
    """By the line that is joined to it."""
    taken_cents: int = 0
    """With returns that the institution made."""

    def may_be(self, item: InstitutionItem) -> bool:
        """Whether a line takes money of such a block, or returns it."""
        days = self.days or (item.day, item.day)
        is_then = self.debited_cents is not None or days[0] - _APART <= item.day <= days[1] + _APART
        return is_then and (item.kind == "judicial") == (self.kind in _ORDERED)


def is_about_block(item: InstitutionItem) -> bool:
    return item.kind == "judicial" or _WORDS.search(item.text) is not None


def join_blocks(items: Iterable[InstitutionItem], blocks: Sequence[BlockOfAccount]) -> tuple[list[ItemJoin], set[str]]:
    """Join lines with blocks of their amount, the oldest first; and the ids of debits that may be of another open block."""
    joins: list[ItemJoin] = []
    waiting = set[str]()
    debited = {block.id: block.debited_cents for block in blocks}
    for item in sorted(filter(is_about_block, items), key=lambda one: (one.day, one.direction == "IN", one.item_id)):
        is_debit = item.direction == "OUT"
        own = [block for block in blocks if block.id in debited and block.may_be(item)]
        own = [block for block in own if (debited[block.id] is None) == is_debit]
        block = next((one for one in own if _find_cents(one, debited[one.id]) == item.amount_cents), None)
        if block is not None:
            joins.append(ItemJoin(item_id=item.item_id, key=("block", block.id), by="amount", is_reversal=not is_debit))
            debited[block.id] = item.amount_cents
            if not is_debit:
                del debited[block.id]
        elif is_debit and own:
            waiting.add(item.item_id)
    return joins, waiting


def _find_cents(block: BlockOfAccount, debited_cents: int | None) -> int:
    """The amount of the next line of a block."""
    return block.held_cents if debited_cents is None else debited_cents - block.taken_cents


def name_kept(item_id: str) -> str:
    """The movement of a debit's remainder that was not returned, after a part of it was returned to payers."""
    return KEPT_PREFIX + hashlib.sha256(item_id.encode()).hexdigest()[:_DIGEST_LENGTH]
