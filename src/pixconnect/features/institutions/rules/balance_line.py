"""Which lines of a file may be balances that the bank wrote among its movements: by their words, or as sums of other lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta
from itertools import accumulate
from typing import Final

from pixconnect.features.institutions.rules.balance_proof import Balances, carry
from pixconnect.features.institutions.rules.institution import InstitutionItem

_WORDS: Final = re.compile(r"\b(S ?A ?L ?D ?O ?S?|SDO|SLD|BALANCE)\b", re.IGNORECASE)
_BEGINS: Final = re.compile(r"\W*(S ?A ?L ?D ?O ?S?|SDO|SLD|BALANCE)\b", re.IGNORECASE)
"""Lines about investments have the words too, behind others."""


def is_called_balance(item: InstitutionItem) -> bool:
    return _may_be_balance(item) and _BEGINS.match(item.text) is not None


def is_weak(item: InstitutionItem) -> bool:
    """Whether only a word behind others calls it a balance: that the balances agree without it may be chance."""
    return _WORDS.search(item.text) is not None and _BEGINS.match(item.text) is None


def _may_be_balance(item: InstitutionItem) -> bool:
    is_nameless = item.counterparty in (None, item.text) or _WORDS.search(item.counterparty or "") is not None
    return not item.names and item.tax_id is None and is_nameless and item.kind in ("other", "judicial")


def find_balances(lines: Sequence[InstitutionItem], balances: Balances) -> set[int]:
    """The places of lines that are called balances, and are that of their day's end by the file's own balances and lines."""
    called = {n for n, line in enumerate(lines) if balances.covers(line.day) and is_called_balance(line)}
    moved = Counter[date]()
    for line in (line for number, line in enumerate(lines) if called and number not in called):
        moved[line.day] += line.signed_cents if balances.covers(line.day) else 0
    days = sorted({*moved, *(lines[number].day for number in called)})
    # The sum moved by the lines from the first day to the end of each.
    moved_until = dict(zip(days, accumulate(moved[day] for day in days), strict=True))
    starts = set[int]() if balances.opening_cents is None else {balances.opening_cents}
    closing = balances.closing
    if closing is not None and days and closing.on >= days[-1]:
        starts.add(closing.cents - moved_until[days[-1]])
    return {n for n in called if lines[n].signed_cents - moved_until[lines[n].day] in starts}


def find_marked(lines: Sequence[InstitutionItem], balances: Balances) -> set[int]:
    """The places of lines that may be balances: by their words, or as the sum of the lines before or after them."""
    able = {number for number, line in enumerate(lines) if _may_be_balance(line)}
    marked = {n for n in able if _WORDS.search(lines[n].text) or _WORDS.search(lines[n].counterparty or "")}
    opening = balances.opening_cents
    if opening is None:
        opening = carry(balances.ends, balances.nets, balances.first_on - timedelta(days=1))
    counted = [number for number, line in enumerate(lines) if balances.covers(line.day) and number not in marked]
    for order in (counted, counted[::-1]) if opening is not None else ():
        running = opening or 0
        for number in order:
            if number in able and lines[number].signed_cents == running:
                marked.add(number)
            else:
                running += lines[number].signed_cents
    return marked
