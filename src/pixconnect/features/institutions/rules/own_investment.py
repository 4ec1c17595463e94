"""Which lines move money between an account and its own investment, as banks do overnight, and how much.

The money stays its holders', so such a line has no entry. It raises or lowers the account's position, by which the institution
has less than the books. A redemption's surplus over the position is yield, a movement of the house.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from datetime import date
from itertools import groupby
from typing import Final

from pixconnect.features.institutions.rules.institution import InstitutionItem

_WORDS: Final = re.compile(
    r"\W*((D[EÉ]B|CR[EÉ]D)\w*\W+)?(APL\b|APLIC(?!ATIV)\w*|RESG\b|RESGATE|RES\W+APL|(BB\W+)?RENDE\W+F[AÁ]CIL)",
    re.IGNORECASE,
)
_YIELD_MAX: Final = 4
"""A redemption of up to a quarter more than the position belongs to it, even if lines are missing."""
YIELD_PREFIX: Final = "yield:"
_DIGEST_LENGTH: Final = 48


def is_own_investment(item: InstitutionItem) -> bool:
    """Whether a line's own words call it an application or a redemption, and it names no other party."""
    is_nameless = not item.names and item.tax_id is None and item.counterparty in (None, item.text)
    return is_nameless and item.kind == "other" and _WORDS.match(item.text) is not None


def plan_investments(
    items: Collection[InstitutionItem],
    position_cents: int,
    is_told: Callable[[date], bool],
    yielded: Mapping[str, int] = {},
) -> dict[str, int | None]:
    """How much of each line moves the position, by its id; ``None`` if the line waits.

    Args:
        items: Applications and redemptions that are alone.
        position_cents: Before them.
        is_told: Whether all lines of the day before a day are known. Then a redemption beyond the position is yield, or money
            that was invested before the books began; else its application may be missing.
        yielded: What some lines yielded, by a movement that is posted: a run that died after it has not joined them.
    """
    posted = {one.item_id: one.amount_cents - yielded[one.item_id] for one in items if one.item_id in yielded}
    planned: dict[str, int | None] = {**posted}
    position_cents -= sum(posted.values())
    for day, group in groupby(sorted(items, key=lambda one: (one.day, one.item_id)), lambda one: one.day):
        of_day = list(group)
        redeemed = [one for one in of_day if one.direction == "IN"]
        # Money invested on the day before returns in the morning; money invested in the evening may return too.
        for one in (*redeemed, *(one for one in of_day if one.direction == "OUT"), *redeemed):
            if one.item_id in planned:
                continue
            if one.direction == "OUT":
                planned[one.item_id] = one.amount_cents
                position_cents += one.amount_cents
            elif one.amount_cents <= position_cents + position_cents // _YIELD_MAX:
                principal_cents = planned[one.item_id] = min(one.amount_cents, position_cents)
                position_cents -= principal_cents
        for one in redeemed:
            if one.item_id not in planned:
                planned[one.item_id] = max(position_cents, 0) if is_told(day) else None
                position_cents = min(position_cents, 0) if is_told(day) else position_cents
    return planned


def name_yield(item_id: str) -> str:
    """The movement of a redemption's surplus over the position."""
    return YIELD_PREFIX + hashlib.sha256(item_id.encode()).hexdigest()[:_DIGEST_LENGTH]
