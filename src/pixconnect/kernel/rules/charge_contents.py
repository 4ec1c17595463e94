"""A charge's contents, as the standard API creates and changes them: the latest revision, and earlier ones.

They are stored as JSON and read by later programs: a new field needs a default, and none is renamed.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct

from pixconnect.features.due_charges.rules import day_amount
from pixconnect.features.due_charges.rules.terms import Discount, DueTerms, Fine, Interest, Rebate
from pixconnect.kernel.register.register import ARRANGEMENT

LIFETIME_S: Final = ARRANGEMENT.find_constant("charge_lifetime").read_value()
"""Default lifetime of the standard's charges. Source: Pix API 2.9.0, ``CobExpiracao``."""


class Payer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    tax_id: str


class PayerAddress(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The payer's address of a charge with a due date, as it was sent."""

    email: str | None = None
    street: str | None = None
    city: str | None = None
    state: str | None = None
    postal_code: str | None = None


class Line(Struct, frozen=True, kw_only=True):
    """A line of additional information for the payer (``infoAdicionais``)."""

    name: str
    value: str


class ChargeContents(Struct, frozen=True, kw_only=True, omit_defaults=True):
    lifetime_s: int
    """From the charge's creation; 0 if a due date sets the end."""
    amount_cents: int
    """0 only if the payer chooses it."""
    may_change_amount: bool | None = None
    """Whether the payer may pay another amount; ``None`` means no, unstated by the caller."""
    key: str
    """Normalised."""
    payer: Payer | None = None
    question: str | None = None
    """The question to the payer (``solicitacaoPagador``)."""
    lines: tuple[Line, ...] = ()
    maker_name: str | None = None
    """Its maker's name for it, at institutions where callers choose no txid."""
    address: PayerAddress | None = None
    due: DueTerms | None = None
    """``None`` for an immediate charge. A charge never changes from one kind to the other."""


class DueChange(Struct, frozen=True, kw_only=True):
    """As ``ContentsChange``; each part is replaced as a whole."""

    due_on: date | None = None
    valid_days: int | None = None
    fine: Fine | None = None
    interest: Interest | None = None
    rebate: Rebate | None = None
    discount: Discount | None = None


class ContentsChange(Struct, frozen=True, kw_only=True):
    """The new values; fields that are ``None`` stay."""

    lifetime_s: int | None = None
    amount_cents: int | None = None
    may_change_amount: bool | None = None
    key: str | None = None
    payer: Payer | None = None
    address: PayerAddress | None = None
    """The new payer's, which must be given too."""
    question: str | None = None
    lines: tuple[Line, ...] | None = None
    due: DueChange | None = None


_encode = msgspec.json.Encoder().encode
decode_contents = msgspec.json.Decoder(ChargeContents).decode


def encode_contents(contents: ChargeContents) -> str:
    return _encode(contents).decode()


def digest_contents(contents: ChargeContents) -> bytes:
    """Return SHA-256 of the stored contents, which ``verify`` computes again from the row."""
    return sha256(_encode(contents)).digest()


def change_contents(contents: ChargeContents, change: ContentsChange) -> ChargeContents:
    said = _said(change)
    if change.payer is not None:
        said["address"] = change.address
    if change.due is not None and contents.due is not None:
        said["due"] = msgspec.structs.replace(contents.due, **_said(change.due))
    return msgspec.structs.replace(contents, **said)


def _said(change: ContentsChange | DueChange) -> dict[str, object]:
    return {name: value for name in change.__struct_fields__ if (value := getattr(change, name)) is not None}


def find_expiry(contents: ChargeContents, counts_from: datetime) -> datetime:
    """Find the instant from which a charge of these contents cannot be paid."""
    if contents.due is not None:
        return day_amount.find_expiry(contents.due)
    return counts_from + timedelta(seconds=contents.lifetime_s)


def are_equivalent(one: ChargeContents, other: ChargeContents) -> bool:
    """Whether both are equal after defaults are applied."""
    return _complete(one) == _complete(other)


def _complete(contents: ChargeContents) -> ChargeContents:
    contents = set_rule(contents, discounts_roll=False)
    return msgspec.structs.replace(contents, may_change_amount=bool(contents.may_change_amount))


def set_rule(contents: ChargeContents, *, discounts_roll: bool) -> ChargeContents:
    """Set the rule of discounts: a new charge gets today's, a revised one keeps its own."""
    if contents.due is None or contents.due.discounts_roll == discounts_roll:
        return contents
    return msgspec.structs.replace(contents, due=msgspec.structs.replace(contents.due, discounts_roll=discounts_roll))
