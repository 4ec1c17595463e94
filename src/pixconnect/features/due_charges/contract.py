"""Charges with a due date in our own API."""

import re
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from pixconnect.doors.api.contract.charge import RULES, Charge, ChargePayer, CreateChargeRequest, QrCodeQuery, answer_charge
from pixconnect.doors.api.envelope import Amount
from pixconnect.doors.api.operation import Operation as Row
from pixconnect.doors.api.operation import Request, Section, Services
from pixconnect.doors.api.routing import NONE
from pixconnect.features.pix_api.service import charge as standard_charge_usecases
from pixconnect.kernel.rules import charge_contents
from pixconnect.kernel.rules.charge_contents import (
    VALID_DAYS,
    ChargeContents,
    DeductionKind,
    DiscountKind,
    InterestKind,
    Payer,
    read_fields,
)
from pixconnect.kernel.rules.money import AMOUNT_MAX_CENTS
from pixconnect.platform.base import errors

_DAYS_MAX: Final = 2**31 - 1
_Day = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
        description="A date in Sao Paulo, as YYYY-MM-DD.",
        extra_json_schema=dict(format="date"),
    ),
]
_Value = Annotated[int, Meta(ge=0, le=AMOUNT_MAX_CENTS, description="Cents of a sum, hundredths of a per cent.")]


class ChargeFine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Added once, from the first day after the due date on."""

    kind: DeductionKind
    """`percentage` is of the amount less the rebate."""
    value: _Value
    """250 is R$ 2,50, or 2.5 %."""


class ChargeInterest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Added for each day after the due date."""

    kind: InterestKind
    """A month has 30 calendar or 21 business days, a year 365 or 252."""
    value: _Value
    """100 is R$ 1,00, or 1 %."""


class ChargeRebate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Taken off on every day."""

    kind: DeductionKind
    """`percentage` is of the amount."""
    value: _Value
    """Less than the amount, or than 100 %."""


class ChargeDatedDiscount(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A discount until a date."""

    until: _Day
    """The last day on which it is given, or rolls; not later than the due date."""
    value: _Value
    """Less than the amount, or than 100 %."""


class ChargeDiscount(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Taken off when it is paid early."""

    kind: DiscountKind
    """Until dates, or for each day before the due date."""
    value: _Value | None = None
    """For each day, of a kind by the day."""
    dated: Annotated[list[ChargeDatedDiscount], Meta(max_length=3)] | None = None
    """Of a kind until dates: the earliest that has not passed is given. One without business rolls to the next business day."""


class CreateDueChargeRequest(CreateChargeRequest, frozen=True, kw_only=True):
    """A charge with a due date to be made."""

    amount_cents: Amount
    """The amount on the due date, before additions and deductions."""
    due_on: _Day
    """The last day on which it is not late: today or later. On a day without business it rolls to the next business day."""
    payer: ChargePayer  # pyright: ignore[reportGeneralTypeIssues]  msgspec requires a field without a default again
    """The debtor."""
    valid_days: Annotated[int, Meta(ge=0, le=_DAYS_MAX)] = VALID_DAYS
    """Calendar days after the due date on which it may still be paid."""
    fine: ChargeFine | None = None
    """Added once it is late."""
    interest: ChargeInterest | None = None
    """Added for each day that it is late."""
    rebate: ChargeRebate | None = None
    """Taken off on every day."""
    discount: ChargeDiscount | None = None
    """Taken off when it is paid early."""
    external_id: Annotated[str, Meta(pattern=r"^[a-zA-Z0-9]{26,35}$", description="26 to 35 letters and digits.")] | None = None
    """Your own unique name for it, which is its txid too and makes a repeated request safe; the service makes one otherwise."""


async def create_due_charge(services: Services, request: Request[None, QrCodeQuery, CreateDueChargeRequest]) -> Charge:
    """Create a charge with a due date.

    It asks for another amount on each day: with fine and interest once it is late, without rebate and discount. The same
    request again (same `external_id`, same contents) returns the same charge in its present state; with other contents it is
    refused with EXTERNAL_ID_CONFLICT.
    """
    body = request.body
    payer = Payer(name=body.payer.name, tax_id=body.payer.tax_id)
    # Its terms set the end of its last day, in place of a lifetime.
    contents = ChargeContents(**read_fields(body, payer=payer, lifetime_s=0, due=_read_terms(body)))
    made = await standard_charge_usecases.create_due_charge(services.context, request.caller, contents, body.external_id)
    return await answer_charge(services, made, request.query)


def _read_terms(body: CreateDueChargeRequest) -> charge_contents.DueTerms:
    try:
        # As stored: the API's record is never equal to the stored one, with which a replay is compared.
        return msgspec.convert(msgspec.to_builtins(body), charge_contents.DueTerms)
    except msgspec.ValidationError as error:
        # Its record was read already, so only a day can be wrong: its place is "$.due_on" or "$.discount.dated[0].until".
        field = re.sub(r"\[\d+\]", "", str(error).rpartition("$.")[2].strip("`"))
        raise errors.BadRequest(f"{field}: there is no such date") from None


# fmt: off
SECTIONS: Final = (
    Section(
        title="Charges",
        operations=(
            Row("create_due_charge", "POST", "/v1/connect/charge/due", "charge.write",
                NONE, QrCodeQuery, CreateDueChargeRequest, Charge, create_due_charge, rules=RULES),
        ),
    ),
)
# fmt: on
