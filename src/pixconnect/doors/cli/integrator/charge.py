"""``pixconnect charge``: be paid.

Also reads additions and deductions of a charge with a due date. A value is cents, ``500``, or a percentage with at most two
decimals, ``2.5%``. Its basis follows a slash: ``1%/month``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Annotated, Final, TypeVar, get_args

from cyclopts import App, Parameter
from cyclopts.validators import Number
from msgspec import Struct, structs

from pixconnect.doors.cli import output, qr_code, records, terminal
from pixconnect.doors.cli.failures import CommandError
from pixconnect.doors.cli.integrator.session import open_session
from pixconnect.doors.cli.integrator.transfer import show_later
from pixconnect.doors.cli.output import Json
from pixconnect.doors.cli.records import Amount, AnyId, ByExternalId, ExternalId, LimitOfEach, TimeoutS
from pixconnect.doors.cli.whole_number import WHOLE_NUMBER
from pixconnect.kernel.rules.charge import ShownStatus
from pixconnect.kernel.rules.tax_id import unmask_tax_id
from pixconnect_client import (
    Charge,
    ChargeDatedDiscount,
    ChargeDiscount,
    ChargeFine,
    ChargeInterest,
    ChargePayer,
    ChargeRebate,
    Client,
    DeductionKind,
    DiscountKind,
    InterestKind,
)

DeductionT = TypeVar("DeductionT", ChargeFine, ChargeRebate)
KindT = TypeVar("KindT", InterestKind, DiscountKind)

_VALUE: Final = re.compile(r"([0-9]{1,12})|([0-9]{1,10})(?:\.([0-9]{1,2}))?%")
_INTEREST: Final[Mapping[tuple[bool, str], InterestKind]] = {
    (False, "day"): InterestKind.SUM_A_DAY,
    (True, "day"): InterestKind.PERCENTAGE_A_DAY,
    (True, "month"): InterestKind.PERCENTAGE_A_MONTH,
    (True, "year"): InterestKind.PERCENTAGE_A_YEAR,
    (False, "business-day"): InterestKind.SUM_A_BUSINESS_DAY,
    (True, "business-day"): InterestKind.PERCENTAGE_A_BUSINESS_DAY,
    (True, "business-month"): InterestKind.PERCENTAGE_A_MONTH_OF_BUSINESS_DAYS,
    (True, "business-year"): InterestKind.PERCENTAGE_A_YEAR_OF_BUSINESS_DAYS,
}
_DISCOUNT: Final[Mapping[tuple[bool, str], DiscountKind]] = {
    (False, "day"): DiscountKind.SUM_A_DAY,
    (True, "day"): DiscountKind.PERCENTAGE_A_DAY,
    (False, "business-day"): DiscountKind.SUM_A_BUSINESS_DAY,
    (True, "business-day"): DiscountKind.PERCENTAGE_A_BUSINESS_DAY,
}


class ReadTerms(Struct, frozen=True, kw_only=True):
    due_on: date
    valid_days: int | None
    fine: ChargeFine | None
    interest: ChargeInterest | None
    rebate: ChargeRebate | None
    discount: ChargeDiscount | None


def read_terms(
    due_on: str | None,
    days_valid: int | None,
    fine: str | None,
    interest: str | None,
    rebate: str | None,
    discounts: Sequence[str],
) -> ReadTerms | None:
    """Read the terms in the options of one charge; ``None`` for one without a due date."""
    if due_on is None:
        if discounts or any(option is not None for option in (days_valid, fine, interest, rebate)):
            raise CommandError("--days-valid, --fine, --interest, --rebate, --discount: only with --due-on")
        return None
    added = None if interest is None else _read_by_period("--interest", interest, _INTEREST, "a value {}, such as 1%/month")
    return ReadTerms(
        due_on=_read_day("--due-on", due_on),
        valid_days=days_valid,
        fine=None if fine is None else _read_deduction("--fine", fine, ChargeFine),
        interest=None if added is None else ChargeInterest(kind=added[0], value=added[1]),
        rebate=None if rebate is None else _read_deduction("--rebate", rebate, ChargeRebate),
        discount=_read_discounts(discounts) if discounts else None,
    )


def _read_day(option: str, text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise CommandError(f"{option}: a date such as 2026-11-30, not {text!r}") from None


def _read_deduction(option: str, text: str, record: type[DeductionT]) -> DeductionT:
    is_percentage, value = _read_value(option, text)
    return record(kind=DeductionKind.PERCENTAGE if is_percentage else DeductionKind.SUM, value=value)


def _read_by_period(option: str, text: str, kinds: Mapping[tuple[bool, str], KindT], wanted: str) -> tuple[KindT, int]:
    written, _, period = text.partition("/")
    is_percentage, value = _read_value(option, written)
    kind = kinds.get((is_percentage, period))
    if kind is None:
        periods = ", ".join(f"/{period}" for period in dict.fromkeys(period for _, period in kinds))
        raise CommandError(f"{option}: {wanted.format(periods)}, not {text!r}")
    return kind, value


def _read_discounts(texts: Sequence[str]) -> ChargeDiscount:
    """Read one discount by the day, or one for each of up to three dates."""
    if "@" in texts[0]:
        return _read_dated(texts)
    if len(texts) > 1:
        raise CommandError("--discount: once by the day, or VALUE@DATE for each date")
    kind, value = _read_by_period("--discount", texts[0], _DISCOUNT, "VALUE@DATE, or a value {}")
    return ChargeDiscount(kind=kind, value=value)


def _read_dated(texts: Sequence[str]) -> ChargeDiscount:
    dated: list[ChargeDatedDiscount] = []
    kinds: set[DiscountKind] = set()
    for text in texts:
        written, _, until = text.partition("@")
        is_percentage, value = _read_value("--discount", written)
        kinds.add(DiscountKind.PERCENTAGE_UNTIL_A_DATE if is_percentage else DiscountKind.SUM_UNTIL_A_DATE)
        dated.append(ChargeDatedDiscount(until=_read_day("--discount", until), value=value))
    if len(kinds) > 1:
        raise CommandError("--discount: sums or percentages, not both")
    return ChargeDiscount(kind=kinds.pop(), dated=dated)


def _read_value(option: str, text: str) -> tuple[bool, int]:
    """Read whether it is a percentage, and its cents or hundredths."""
    found = _VALUE.fullmatch(text)
    if found is None:
        raise CommandError(f"{option}: cents such as 500, or a percentage such as 2.5%, not {text!r}")
    sum_cents, units, decimals = found.groups()
    if sum_cents is not None:
        return False, int(sum_cents)
    return True, int(units) * 100 + int((decimals or "").ljust(2, "0"))


app = App(name="charge", help="Create, list and show charges: requests to be paid, each with a QR code.")

TheCharge = Annotated[AnyId, Parameter(help="Its id, external_id or txid.")]
_COLUMNS = ("id", "status", "amount", "external_id")


@app.command
def create(  # noqa: PLR0913  each is an option on the command line
    amount: Amount,
    *,
    key: str | None = None,
    external_id: ExternalId = None,
    payer_name: str | None = None,
    payer_tax_id: str | None = None,
    due_on: str | None = None,
    days_valid: Annotated[int, WHOLE_NUMBER, Parameter(validator=Number(gte=0, lt=2**31))] | None = None,
    fine: str | None = None,
    interest: str | None = None,
    rebate: str | None = None,
    discount: Annotated[Sequence[str], Parameter(negative=(), show_default=False)] = (),
    qr: Annotated[bool, Parameter(show_default=False)] = True,
    json: Json = False,
) -> None:
    """Create a charge that can be paid for a day, and draw its QR code if the terminal has room for it.

    Args:
        amount: In cents: 1000 is R$ 10,00.
        key: The Pix key of yours that receives the money; by default one of the profile's or the demonstration's.
        payer_name: The payer's name.
        payer_tax_id: The payer's CPF or CNPJ.
        due_on: The last day on which it is not late, such as 2026-11-30; the amount is then another on each day.
        days_valid: How many days after the due date it may still be paid; 30 by default.
        fine: Added once it is late: cents such as 500, or 2%.
        interest: Added for each day that it is late: 50/day, 0.1%/day, 1%/month, 12%/year; /business-day, /business-month and
            /business-year count business days.
        rebate: Taken off whenever it is paid: cents, or 5%.
        discount: Taken off when it is paid early: 500@2026-11-20 or 5%@2026-11-20 for each of up to three dates, or for each
            day 40/day, 0.5%/business-day.
        qr: Draw the QR code.
    """
    if (payer_name is None) != (payer_tax_id is None):
        raise CommandError("--payer-name, --payer-tax-id: give both or none")
    payer = ChargePayer(name=payer_name, tax_id=unmask_tax_id(payer_tax_id)) if payer_name and payer_tax_id else None
    terms = read_terms(due_on, days_valid, fine, interest, rebate, discount)
    if terms is not None and payer is None:
        raise CommandError("--due-on: needs --payer-name and --payer-tax-id")
    with open_session() as session:
        charges, own_key = session.client.charges, session.own_key(key)
        if terms is None or payer is None:
            charge = charges.create(amount, own_key, external_id=external_id, payer=payer)
        else:
            members = structs.asdict(terms)
            charge = charges.create_due(amount, own_key, payer=payer, external_id=external_id, **members)
    _show(charge, {}, as_json=json, with_picture=qr)


@app.command
def show(
    charge: TheCharge,
    *,
    external_id: ByExternalId = False,
    qr: Annotated[bool, Parameter(show_default=False)] = False,
    json: Json = False,
) -> None:
    """Print a charge.

    Args:
        qr: Draw the QR code.
    """
    with open_session() as session:
        found = find(session.client, charge, is_external_id=external_id)
        payment = session.client.charges.payment(found.id) if found.status == "APPROVED" else None
        later = payment and show_later(session.client, payment.transfer_id)
    _show(found, later or {}, as_json=json, with_picture=qr)


@app.command(name="list")
def list_charges(*, status: ShownStatus | None = None, limit: LimitOfEach = 20, json: Json = False) -> None:
    """Print charges, status by status, newest of each first.

    Args:
        status: Only charges with this status.
    """
    # A charge does not show its creation, and ids of two processes are not in order of time: statuses are not mixed.
    with open_session() as session:
        found = records.read_each(session.client.charges.list, [status] if status else get_args(ShownStatus), limit)
    records.show_items("charges", found, _COLUMNS, as_json=json)


@app.command(name="payment")
def paid_by(charge: TheCharge, *, external_id: ByExternalId = False, json: Json = False) -> None:
    """Print a charge's payment, and its payer."""
    with open_session() as session:
        found = find(session.client, charge, is_external_id=external_id)
        records.show(session.client.charges.payment(found.id), as_json=json)


@app.command
def watch(charge: TheCharge, *, external_id: ByExternalId = False, timeout_s: TimeoutS = None, json: Json = False) -> None:
    """Print a charge's status whenever it changes, until it is paid or expired."""
    with open_session() as session:
        found = find(session.client, charge, is_external_id=external_id)
        records.watch(lambda: session.client.charges.get(found.id), {"PENDING"}, "APPROVED", timeout_s, as_json=json)


def find(client: Client, any_id: str, *, is_external_id: bool) -> Charge:
    of = client.charges
    ways = of.get, of.get_by_external_id, of.get_by_txid
    return records.find("charge", any_id, *ways, is_external_id=is_external_id)


def _show(charge: Charge, later: output.Shown, *, as_json: bool, with_picture: bool) -> None:
    shown = records.shown(charge) | later
    # Requested without a picture, that field is always empty.
    del shown["base64image"]
    output.show(shown, as_json=as_json, money=records.MONEY)
    if with_picture and not as_json and terminal.is_terminal():
        lines = qr_code.draw(charge.emvqrcps)
        if lines is None:
            terminal.notice("(the terminal is too narrow for the QR code)")
        for line in lines or ():
            terminal.print_line(line)
