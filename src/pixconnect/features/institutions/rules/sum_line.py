"""Statement lines that sum many Pix: by the institution's count, or by its words for them.

Payers' texts follow the bank's words and the payer's name, so only a text's beginning marks a sum.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from itertools import accumulate
from typing import Final

from pixconnect.features.institutions.rules.institution import InstitutionItem

_MANY: Final = re.compile(
    r"\W*(?:(?:PIX|CR[EÉ]D|CR[EÉ]DITO|TRANSF|TOTAL|SOMA|DE|DO|DOS|DAS|EM|POR|VIA)\b\W*){0,5}"
    r"(?:RECEBID[OA]S|RECEBIMENTOS|ENVIAD[OA]S|CR[EÉ]DITOS|TRANSFER[EÊ]NCIAS|TRANSA[CÇ][OÕ]ES|LOTES?|QRS|TOTAL|SOMA)\b",
    re.IGNORECASE,
)
_COUNT: Final = re.compile(
    r"\b(?:QTDE?|QTE|QUANTIDADE)\W*(?P<count>[0-9]{1,6})\b|\b(?P<before>[0-9]{1,6})\W*(?:TRANSA|PIX\b|OPERA|LAN[CÇ]A)",
    re.IGNORECASE,
)
LoneSum = tuple[str, date, int]  # a direction, a day and the cents of what is unmatched of it
_CHOSEN_FROM_MAX: Final = 100
_CHOICES_MAX: Final = 5_000  # tried per sum


def may_be_sum(item: InstitutionItem) -> bool:
    """Whether a line names neither a Pix nor another party, so that it may be the sum of several."""
    party = item.counterparty
    is_party = party is not None and party != item.text and _MANY.match(party) is None
    return not (item.names or item.tax_id or is_party)


def is_sum(item: InstitutionItem) -> bool:
    """Whether a line is called the sum of many Pix: it replaces none of them."""
    if item.parts is not None:
        return True
    is_many = item.kind in ("pix", "other") and may_be_sum(item) and _MANY.match(item.text) is not None
    return is_many and count_parts(item) != 1


def count_parts(item: InstitutionItem) -> int | None:
    """Return the number of Pix in a sum, if reported."""
    if item.parts is not None:
        return item.parts.count
    count = _COUNT.search(item.text) if _MANY.match(item.text) is not None else None
    return None if count is None else int(count["count"] or count["before"])


def is_one_of(item: InstitutionItem, sums: Collection[LoneSum]) -> bool:
    return (item.direction, item.day, item.amount_cents) in sums


def read_form(text: str) -> str:
    """Return the common part of an institution's texts of sums: all but their numbers."""
    return re.sub("[0-9]+", "#", " ".join(text.split()).casefold())


def mark_parts(amounts: Sequence[int], cents: int) -> list[bool]:
    """Find which amounts are of some choice that makes a sum: all if choices are too many, none of over a hundred amounts."""
    sums = [{0}], [{0}]
    if len(amounts) > _CHOSEN_FROM_MAX:
        return [False] * len(amounts)
    for found, side in zip(sums, (amounts, amounts[::-1]), strict=True):
        for amount in side:
            found.append(found[-1] | {one + amount for one in found[-1] if one + amount <= cents})
            if len(found[-1]) > _CHOICES_MAX:
                return [True] * len(amounts)
    after = sums[1][-2::-1]
    return [not after[n].isdisjoint({cents - amount - one for one in sums[0][n]}) for n, amount in enumerate(amounts)]


def choose_parts(amounts: Sequence[int], sums: Sequence[tuple[int, int | None]]) -> list[list[int]]:
    """Choose the amounts of each sum, by place, where only one choice makes it; equal amounts are interchangeable.

    If the sums together are all amounts, any choices that make all of them are as good as others.

    Args:
        sums: Cents, and the number of amounts, if known.
    """
    left, found = dict(enumerate(amounts)), [list[int]() for _ in sums]
    ways = (False, True) if sum(amounts) == sum(cents for cents, _ in sums) else (False,)
    while True:
        waiting = [(place, is_any) for is_any in ways for place, parts in enumerate(found) if not parts]
        tries = ((place, _choose(left, *sums[place], is_any=is_any)) for place, is_any in waiting)
        place, parts = next((one for one in tries if one[1]), (0, list[int]()))
        if not parts:
            return found
        found[place] = parts
        for taken in parts:
            del left[taken]


def _choose(left: Mapping[int, int], cents: int, count: int | None, *, is_any: bool) -> list[int]:
    if len(left) > 1 and sum(left.values()) == cents:
        return [*left]
    for number, total in enumerate(accumulate(left.values()), 1) if is_any else ():
        if number > 1 and total == cents and count in (None, number):
            return [*left][:number]
    count_max = min(count or len(left), len(left) - 1)
    if len(left) > _CHOSEN_FROM_MAX or (count or 0) > count_max:
        return []
    alike = defaultdict[int, list[int]](list)
    for place, amount in left.items():
        alike[amount].append(place)
    # By number and cents; nothing if there are several.
    choices: dict[tuple[int, int], list[int] | None] = {(0, 0): []}
    for amount, places in alike.items():
        for (number, total), chosen in [*choices.items()]:
            for more in range(1, min(len(places), count_max - number, (cents - total) // amount) + 1):
                key = number + more, total + more * amount
                is_clear = is_any or key not in choices
                choices[key] = [*chosen, *places[:more]] if is_clear and chosen is not None else None
        if len(choices) > _CHOICES_MAX:
            return []
    fitting = [one for key, one in choices.items() if key[1] == cents and key[0] > 1 and count in (None, key[0])]
    return (fitting[0] or []) if len(fitting) == 1 or (fitting and is_any) else []
