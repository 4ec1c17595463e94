"""A charge's contents, as the standard API creates and changes them: the latest revision, and earlier ones.

They are stored as JSON and read by later programs: a new field needs a default, and none is renamed.

Source of the terms of charges with a due date: Pix API 2.9.0, ``CobDataDeVencimento`` and ``CobVValor``. The tables of kinds
stand in its order: a kind's place in its table, counted from 1, is the standard's ``modalidade``.
"""

from datetime import date, datetime, timedelta
from functools import cache
from hashlib import sha256
from operator import attrgetter
from typing import Any, Final, Literal, LiteralString

import msgspec
from msgspec import Struct

from pixconnect.kernel.feature import gather_one
from pixconnect.kernel.register import ARRANGEMENT
from pixconnect.kernel.rules.money import Cents
from pixconnect.platform.base import errors

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


VALID_DAYS: Final = ARRANGEMENT.find_constant("valid_after_due").read_value()
"""Default of a charge (``validadeAposVencimento``)."""
Hundredths = int  # cents of a sum, or hundredths of a per cent: both are written with two decimals
DeductionKind = Literal["sum", "percentage"]
InterestKind = Literal[
    "sum_a_day",
    "percentage_a_day",
    "percentage_a_month",
    "percentage_a_year",
    "sum_a_business_day",
    "percentage_a_business_day",
    "percentage_a_month_of_business_days",
    "percentage_a_year_of_business_days",
]
DiscountKind = Literal[
    "sum_until_a_date",
    "percentage_until_a_date",
    "sum_a_day",
    "sum_a_business_day",
    "percentage_a_day",
    "percentage_a_business_day",
]


class Fine(Struct, frozen=True, kw_only=True):
    """Added once, from the first day after the due date on (``multa``)."""

    kind: DeductionKind
    value: Hundredths


class Interest(Struct, frozen=True, kw_only=True):
    """Added for each day after the due date (``juros``)."""

    kind: InterestKind
    value: Hundredths


class Rebate(Struct, frozen=True, kw_only=True):
    """Taken off on every day, whenever it is paid (``abatimento``)."""

    kind: DeductionKind
    value: Hundredths


class DatedDiscount(Struct, frozen=True, kw_only=True):
    until: date  # its last day
    value: Hundredths


class Discount(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Taken off when it is paid early, and never once it is late (``desconto``)."""

    kind: DiscountKind
    value: Hundredths | None = None  # for each day before the due date; ``None`` if dates are given
    dated: tuple[DatedDiscount, ...] = ()  # in the order in which they were sent; empty if each day counts


class DueTerms(Struct, frozen=True, kw_only=True, omit_defaults=True):
    due_on: date
    """As it was sent; on a day without business it rolls to the next business day (``dataDeVencimento``)."""
    valid_days: int = VALID_DAYS
    """Calendar days after the due date on which it may still be paid."""
    fine: Fine | None = None
    interest: Interest | None = None
    rebate: Rebate | None = None
    discount: Discount | None = None
    discounts_roll: bool = False
    """Whether a discount's date without business is moved to the next business day.

    The rule at the charge's creation applies, and a revision keeps it. Requests lack it, as do charges older than the rule.
    """


class DayAmount(Struct, frozen=True, kw_only=True):
    """The parts of ``total_cents``. Fine and interest are added, rebate and discount are taken off; none is negative."""

    original_cents: Cents
    fine_cents: Cents = 0
    interest_cents: Cents = 0
    rebate_cents: Cents = 0
    discount_cents: Cents = 0

    @property
    def total_cents(self) -> Cents:
        """The amount to pay: from ``AMOUNT_MIN_CENTS`` to ``AMOUNT_MAX_CENTS``."""
        added_cents = self.original_cents + self.fine_cents + self.interest_cents
        return added_cents - self.rebate_cents - self.discount_cents


class DayRules:
    """What a charge with a due date asks for on each day, and until when. A feature computes it."""

    def find_expiry(self, terms: DueTerms) -> datetime:
        """The instant from which on it can no longer be paid."""
        raise errors.InternalError(f"no feature has charges with a due date, such as {terms.due_on}")

    def compute_amount(self, terms: DueTerms, original_cents: Cents, day: date) -> DayAmount:
        raise errors.InternalError(f"no feature has charges with a due date, such as {terms.due_on}: {original_cents}, {day}")


@cache
def find_day_rules() -> DayRules:
    return gather_one("day_rules", DayRules)


class ChargeFields(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What callers of every API set. Requests, contents, charges, columns and the digest of ``verify`` have these fields.

    The default of an optional one is ``None``, null in its column.
    """

    amount_cents: int
    """0 only if the payer chooses it."""
    key: str
    """Normalised, except in a request."""
    payer: Payer | None = None


CHARGE_FIELDS: Final[tuple[LiteralString, ...]] = ChargeFields.__struct_fields__  # pyright: ignore[reportAssignmentType]
take_fields: Final = attrgetter(*CHARGE_FIELDS)


def read_fields(of: ChargeFields, **others: object) -> dict[str, Any]:
    return dict(zip(CHARGE_FIELDS, take_fields(of), strict=True), **others)


class ChargeContents(ChargeFields, frozen=True, kw_only=True, omit_defaults=True):
    lifetime_s: int  # from the charge's creation; 0 if a due date sets the end
    # Whether the payer may pay another amount; ``None`` means no, unstated by the caller.
    may_change_amount: bool | None = None
    question: str | None = None  # the question to the payer (``solicitacaoPagador``)
    lines: tuple[Line, ...] = ()
    maker_name: str | None = None  # its maker's name for it, at institutions where callers choose no txid
    address: PayerAddress | None = None
    # ``None`` for an immediate charge. A charge never changes from one kind to the other.
    due: DueTerms | None = None


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
    address: PayerAddress | None = None  # the new payer's, which must be given too
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
    given = _list_given(change)
    if change.payer is not None:
        given["address"] = change.address
    if change.due is not None and contents.due is not None:
        given["due"] = msgspec.structs.replace(contents.due, **_list_given(change.due))
    return msgspec.structs.replace(contents, **given)


def _list_given(change: ContentsChange | DueChange) -> dict[str, object]:
    return {name: value for name, value in msgspec.structs.asdict(change).items() if value is not None}


def find_expiry(contents: ChargeContents, counts_from: datetime) -> datetime:
    """Find the instant from which a charge of these contents cannot be paid."""
    if contents.due is not None:
        return find_day_rules().find_expiry(contents.due)
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
