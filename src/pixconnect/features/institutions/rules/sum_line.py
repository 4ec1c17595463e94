"""Statement lines that sum many Pix: by the institution's count, or by its words for them.

Payers' texts follow the bank's words and the payer's name, so only a text's beginning marks a sum.
"""

from __future__ import annotations

import re
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


def read_form(text: str) -> str:
    """Return the common part of an institution's texts of sums: all but their numbers."""
    return re.sub("[0-9]+", "#", " ".join(text.split()).casefold())
