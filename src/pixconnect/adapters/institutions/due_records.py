"""Charges with a due date, and the parts of what has paid them, as the central bank's API writes them.

A kind's place in its table of ``domain/due/terms``, counted from 1, is the standard's number of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final, TypeVar

from pixconnect.adapters.institutions.message import as_members
from pixconnect.adapters.institutions.wire import Malformed, take_count, take_reais, take_rows, take_text
from pixconnect.domain.due.day_amount import DayAmount
from pixconnect.domain.due.terms import (
    DEDUCTION_KINDS,
    DISCOUNT_KINDS,
    INTEREST_KINDS,
    UNTIL_A_DATE,
    VALID_DAYS,
    DatedDiscount,
    Discount,
    DueTerms,
    Fine,
    Interest,
    Rebate,
)
from pixconnect.domain.frame.money import AMOUNT_MAX_CENTS, format_reais
from pixconnect.domain.money.charge_contents import PayerAddress

_DAYS_MAX: Final = 2**31 - 1
_DATED_MAX: Final = 100
_HUNDREDTHS: Final = re.compile(r"[0-9]{1,10}\.[0-9]{2}")
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_PARTS: Final = dict(multa="fine_cents", juros="interest_cents", abatimento="rebate_cents", desconto="discount_cents")

_Kind = TypeVar("_Kind", bound=str)


def write_calendar(terms: DueTerms) -> dict[str, object]:
    return dict(dataDeVencimento=terms.due_on.isoformat(), validadeAposVencimento=terms.valid_days)


def write_value(terms: DueTerms, amount_cents: int) -> dict[str, object]:
    value = dict[str, object](original=format_reais(amount_cents))
    if terms.fine is not None:
        value["multa"] = _write_part(DEDUCTION_KINDS, terms.fine.kind, terms.fine.value)
    if terms.interest is not None:
        value["juros"] = _write_part(INTEREST_KINDS, terms.interest.kind, terms.interest.value)
    if terms.rebate is not None:
        value["abatimento"] = _write_part(DEDUCTION_KINDS, terms.rebate.kind, terms.rebate.value)
    discount = terms.discount
    if discount is not None:
        written = value["desconto"] = _write_part(DISCOUNT_KINDS, discount.kind, discount.value)
        if discount.dated:
            written["descontoDataFixa"] = [
                dict(data=each.until.isoformat(), valorPerc=format_reais(each.value)) for each in discount.dated
            ]
    return value


def write_address(address: PayerAddress) -> dict[str, str]:
    """What a debtor has beside name and number."""
    told = dict(
        email=address.email,
        logradouro=address.street,
        cidade=address.city,
        uf=address.state,
        cep=address.postal_code,
    )
    return {name: text for name, text in told.items() if text is not None}


def _write_part(kinds: Sequence[str], kind: str, value: int | None) -> dict[str, object]:
    rate = {} if value is None else {"valorPerc": format_reais(value)}
    return {"modalidade": kinds.index(kind) + 1, **rate}


def decode_terms(calendar: Mapping[str, object], value: Mapping[str, object]) -> DueTerms | None:
    """The terms of a charge with a due date, ``None`` of any other; ``Malformed`` where they cannot be relied on."""
    if "dataDeVencimento" not in calendar:
        return None
    is_told = "validadeAposVencimento" in calendar
    fine = _decode_part(value, "multa", DEDUCTION_KINDS)
    interest = _decode_part(value, "juros", INTEREST_KINDS)
    rebate = _decode_part(value, "abatimento", DEDUCTION_KINDS)
    return DueTerms(
        due_on=_take_day(calendar, "dataDeVencimento"),
        valid_days=take_count(calendar, "validadeAposVencimento", _DAYS_MAX) if is_told else VALID_DAYS,
        fine=None if fine is None else Fine(kind=fine[0], value=fine[1]),
        interest=None if interest is None else Interest(kind=interest[0], value=interest[1]),
        rebate=None if rebate is None else Rebate(kind=rebate[0], value=rebate[1]),
        discount=_decode_discount(value),
    )


def _decode_part(value: Mapping[str, object], name: str, kinds: Sequence[_Kind]) -> tuple[_Kind, int] | None:
    part = _find_part(value, name)
    return None if part is None else (_take_kind(part, name, kinds), _take_hundredths(part))


def _decode_discount(value: Mapping[str, object]) -> Discount | None:
    part = _find_part(value, "desconto")
    if part is None:
        return None
    kind = _take_kind(part, "desconto", DISCOUNT_KINDS)
    if kind not in UNTIL_A_DATE:
        return Discount(kind=kind, value=_take_hundredths(part))
    rows = [as_members(row) or {} for row in take_rows(part, "descontoDataFixa")[:_DATED_MAX]]
    dated = [DatedDiscount(until=_take_day(row, "data"), value=_take_hundredths(row)) for row in rows]
    return Discount(kind=kind, dated=tuple(dated))


def _find_part(value: Mapping[str, object], name: str) -> Mapping[str, object] | None:
    part = value.get(name)
    found = as_members(part)
    if part is not None and found is None:
        raise Malformed(f"{name} is no object")
    # Some write a part that there is not as an empty object.
    return found or None


def _take_kind(part: Mapping[str, object], name: str, kinds: Sequence[_Kind]) -> _Kind:
    told = part.get("modalidade")
    # The standard's own examples have it as a text.
    number = int(told) if isinstance(told, str) and told.isascii() and told.isdigit() and len(told) == 1 else told
    if type(number) is not int or not 1 <= number <= len(kinds):
        raise Malformed(f"{name} has a modality that we do not know")
    return kinds[number - 1]


def _take_hundredths(part: Mapping[str, object]) -> int:
    return int(take_text(part, "valorPerc", 13, form=_HUNDREDTHS).replace(".", ""))


def _take_day(members: Mapping[str, object], name: str) -> date:
    text = take_text(members, name, 10, form=_DAY)
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise Malformed(f"{name} is no day") from None


def find_parts(members: Mapping[str, object]) -> DayAmount | None:
    """Of what parts a received Pix consists; ``None`` where that is not told so that it can be read.

    The Pix counts all the same: what it consists of is only shown.
    """
    told = as_members(members.get("componentesValor"))
    if told is None or any(name in told for name in ("saque", "troco")):
        return None
    try:
        original_cents = take_reais(as_members(told.get("original")) or {}, "valor")
        parts = {ours: _take_cents(told[name]) for name, ours in _PARTS.items() if told.get(name) is not None}
    except Malformed:
        return None
    return DayAmount(original_cents=original_cents, **parts)


def _take_cents(part: object) -> int:
    cents = int(take_text(as_members(part) or {}, "valor", 13, form=_HUNDREDTHS).replace(".", ""))
    if cents > AMOUNT_MAX_CENTS:
        raise Malformed("valor is no amount that a part of a Pix can have")
    return cents
