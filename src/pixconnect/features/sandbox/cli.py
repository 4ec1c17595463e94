"""``pay``, ``receive``, ``return``, ``deposit``, ``move``, ``trigger``, ``clock``, ``faults``: verbs of a sandbox."""

import re
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number

from pixconnect.doors.cli import output, records, terminal
from pixconnect.doors.cli.failures import CommandError, ExitStatus
from pixconnect.doors.cli.integrator import charge, recipes, transfer
from pixconnect.doors.cli.integrator.session import open_sandbox
from pixconnect.doors.cli.output import Json
from pixconnect.doors.cli.records import MONEY, Amount, AnyId, ByExternalId
from pixconnect.doors.cli.whole_number import WHOLE_NUMBER
from pixconnect.features.sandbox.rules import MadeMovementKind, Operation
from pixconnect.features.webhooks.cli.events import FoundEvent, wait_for_event
from pixconnect.kernel.rules.event import SandboxEventName
from pixconnect.kernel.rules.refund import RefundReason
from pixconnect.kernel.rules.tax_id import unmask_tax_id
from pixconnect.platform.base.clock import format_local, to_day
from pixconnect.platform.outgoing_text import trim_pasted
from pixconnect_client import FaultMatch, FaultOperation, FaultRule, OutsidePayer, Payment, SandboxClock

_WHY_UNPAYABLE: Final = dict(APPROVED="the charge has been paid already", EXPIRED="the charge has expired")

PayerName = Annotated[str | None, Parameter(help="The payer's name; made up if left out.")]
PayerTaxId = Annotated[str | None, Parameter(help="The payer's CPF or CNPJ; made up if left out.")]


def pay(
    code: AnyId,
    *,
    external_id: ByExternalId = False,
    amount: Amount | None = None,
    payer_name: PayerName = None,
    payer_tax_id: PayerTaxId = None,
    json: Json = False,
) -> None:
    """Pay one of your charges, as a payer at another institution.

    Args:
        code: The text of its QR code, or the charge's id, external_id or txid.
        amount: In cents; the charge's if left out.
    """
    with open_sandbox() as session:
        code = trim_pasted(code)
        is_code = code.startswith(transfer.QR_CODE_BEGINNING) and not external_id
        known = None if is_code else charge.find(session.client, code, is_external_id=external_id)
        payer = OutsidePayer(name=payer_name, tax_id=payer_tax_id and unmask_tax_id(payer_tax_id))
        paid = session.client.sandbox.pay(known.emvqrcps if known else code, amount=amount, payer=payer)
    # Its earlier payment: a charge that is paid now stays paid, regardless of this payment.
    _show_payment(paid, as_json=json, reason=_WHY_UNPAYABLE.get(known.status) if known else None)


def receive(
    amount: Amount, *, key: str | None = None, payer_name: PayerName = None, payer_tax_id: PayerTaxId = None, json: Json = False
) -> None:
    """Send money to a key of yours, from another institution.

    Args:
        amount: In cents: 1000 is R$ 10,00.
        key: The Pix key; by default one of the profile's or the demonstration's.
    """
    with open_sandbox() as session:
        payer = OutsidePayer(name=payer_name, tax_id=payer_tax_id and unmask_tax_id(payer_tax_id))
        paid = session.client.sandbox.receive(session.own_key(key), amount, payer=payer)
    _show_payment(paid, as_json=json)


def give_back(
    sent: Annotated[AnyId, Parameter(help="The id, external_id or end_to_end_id of the transfer that you sent.")],
    *,
    external_id: ByExternalId = False,
    amount: Amount | None = None,
    reason: RefundReason | None = None,
    json: Json = False,
) -> None:
    """Return a transfer of yours, wholly or in part, as its receiver would.

    Args:
        amount: In cents; all that is left of it if left out.
        reason: Why; MD06, you asked for it, if left out.
    """
    with open_sandbox() as session:
        found = transfer.find(session.client, sent, is_external_id=external_id)
        returned = session.client.sandbox.give_back(found.end_to_end_id, amount=amount, reason=reason)
    records.show(returned, as_json=json)
    if returned.status == "ERROR":
        raise CommandError("the service refused it: no money moved", status=ExitStatus.ENDED_BADLY)


def deposit(amount: Amount, *, json: Json = False) -> None:
    """Put play money into your account.

    Args:
        amount: In cents: 1000 is R$ 10,00.
    """
    with open_sandbox() as session:
        records.show(session.client.sandbox.deposit(amount), as_json=json)


def move(
    kind: MadeMovementKind, direction: Literal["IN", "OUT"], amount: Amount, *, text: str | None = None, json: Json = False
) -> None:
    """Move money on your account as your institution, or a person in its app.

    Args:
        kind: The movement's kind; by_hand is a person in the institution's app.
        direction: Whether it comes in or goes out.
        amount: In cents: 1000 is R$ 10,00.
        text: The institution's description.
    """
    with open_sandbox() as session:
        records.show(session.client.sandbox.move(kind, direction, amount, text=text), as_json=json)


def _show_payment(paid: Payment, *, as_json: bool, reason: str | None = None) -> None:
    records.show(paid, as_json=as_json)
    if paid.status == "ERROR":
        # The network's reason is part of the output.
        why = f"; {reason}" if reason else ""
        raise CommandError(f"it was refused with {paid.code}: no money moved{why}", status=ExitStatus.ENDED_BADLY)


_HAPPENS_WITHIN_S: Final = 30.0


def trigger(
    event: SandboxEventName,
    *,
    amount: Amount = recipes.AMOUNT_CENTS,
    external_id: str | None = None,
    key: str | None = None,
    payer_name: PayerName = None,
    payer_tax_id: PayerTaxId = None,
    code: Annotated[str, Parameter(show_default=True)] = "AC03",
    json: Json = False,
) -> None:
    """Cause an event in a sandbox, by making the charge, transfer or refund that leads to it; prints the event.

    `qrcode.expired` moves the sandbox's clock, which all holders share.

    Args:
        event: Its name.
        amount: In cents.
        external_id: Your own name for its charge, transfer or refund; it must be new.
        key: The Pix key of yours that is paid; by default one of the profile's or the demonstration's.
        code: The network's rejection code, for an event of an error.
    """
    with open_sandbox() as session:
        client = session.client
        chosen = recipes.Chosen(
            client=client,
            key=session.own_key(key),
            amount=amount,
            external_id=external_id,
            payer=OutsidePayer(name=payer_name, tax_id=payer_tax_id and unmask_tax_id(payer_tax_id)),
            code=code,
        )
        # The sandbox's time, which may be ahead; a little earlier, because it is read before the act.
        since = client.sandbox.clock().now - timedelta(seconds=1)
        field, value = recipes.follow(event, chosen)

        def is_meant(found: FoundEvent) -> bool:
            return found["name"] == event and found["payload"].get(field) == value

        found = wait_for_event(client, since, is_meant, _HAPPENS_WITHIN_S)
    output.show(found, as_json=json, money={f"payload.{name}" for name in MONEY})


clock_app = App(name="clock", help="The sandbox's clock, which decides when charges expire and retries are due.")

_SPAN: Final = re.compile(r"(?:(\d{1,12})d)?(?:(\d{1,12})h)?(?:(\d{1,12})m)?(?:(\d{1,12})s?)?")
_SECONDS: Final = (86_400, 3_600, 60, 1)
_SLIGHTLY: Final = timedelta(seconds=5)


@clock_app.default
def show_clock(*, json: Json = False) -> None:
    """Print the time."""
    with open_sandbox() as session:
        records.show(session.client.sandbox.clock(), as_json=json)


@clock_app.command
def advance(span: str, *, json: Json = False) -> None:
    """Move the time forward; everything due on the way is done when it returns. All holders share it.

    Args:
        span: How far: seconds, or such as 90s, 10m, 1d12h.
    """
    found = _SPAN.fullmatch(span)
    if not span or found is None:
        raise CommandError(f"SPAN: must be seconds, or such as 90s, 10m, 1d12h; it is {span!r}")
    seconds = sum(int(count or 0) * seconds for count, seconds in zip(found.groups(), _SECONDS, strict=True))
    with open_sandbox() as session:
        records.show(session.client.sandbox.advance_clock(seconds), as_json=json)


@clock_app.command(name="set")
def set_clock(instant: str, *, json: Json = False) -> None:
    """Move the time to an instant, forward or back.

    Args:
        instant: Such as 2026-11-20T12:00:00-03:00; a day begins at midnight in Sao Paulo.
    """
    now = records.parse_instant("INSTANT", instant)
    with open_sandbox() as session:
        before = session.client.sandbox.clock().now
        _show_moved(before, session.client.sandbox.set_clock(now), as_json=json)


@clock_app.command
def reset(*, json: Json = False) -> None:
    """Return to real time. Records made while the clock was ahead keep their time."""
    with open_sandbox() as session:
        before = session.client.sandbox.clock().now
        _show_moved(before, session.client.sandbox.reset_clock(), as_json=json)


def _show_moved(before: datetime, clock: SandboxClock, *, as_json: bool) -> None:
    if before - clock.now > _SLIGHTLY:
        terminal.notice(
            f"the clock was at {format_local(before)}: records made then keep that time and stay first in lists, and new "
            "entries of those accounts are dated no earlier; to include them, use `pixconnect statement --until "
            f"{to_day(before)}`"
        )
    records.show(clock, as_json=as_json)


faults_app = App(name="faults", help="Rules by which the sandbox's network misbehaves: one set for all holders.")

_RULE_COLUMNS = ("effect", "match.operation", "match.key", "match.amount", "probability", "times")


@faults_app.command(name="list")
def list_rules(*, json: Json = False) -> None:
    """Print the rules: the first that matches wins."""
    with open_sandbox() as session:
        _show_rules(session.client.sandbox.faults().rules, as_json=json)


@faults_app.command
def add(
    effect: str,
    *,
    operation: Operation | None = None,
    key: str | None = None,
    amount: Amount | None = None,
    probability: Annotated[float | None, Parameter(validator=Number(gte=0, lte=1))] = None,
    times: Annotated[int | None, WHOLE_NUMBER, Parameter(validator=Number(gte=0))] = None,
    json: Json = False,
) -> None:
    """Add a rule before the others; prints all of them.

    Args:
        effect: The effect: reject:AC03, delay:3000, no_answer, lost, unavailable, ... (the page on the sandbox has all).
        operation: Only on messages of this kind.
        key: Only if this is the payee's Pix key.
        amount: Only on messages of this amount, in cents.
        probability: Only on this share of them, from 0 to 1.
        times: Only on this many of them.
    """
    match = FaultMatch(key=key, amount=amount, operation=operation and FaultOperation(operation))
    rule = FaultRule(effect=effect, match=match, probability=probability, times=times)
    with open_sandbox() as session:
        rules = session.client.sandbox.faults().rules
        _show_rules(session.client.sandbox.replace_faults([rule, *rules]).rules, as_json=json)


@faults_app.command
def clear() -> None:
    """Remove all rules: the network behaves normally again."""
    with open_sandbox() as session:
        session.client.sandbox.clear_faults()
    terminal.notice("there are no rules now")


def _show_rules(rules: list[FaultRule], *, as_json: bool) -> None:
    output.show_list(
        "rules", [records.shown(rule) for rule in rules], as_json=as_json, columns=_RULE_COLUMNS, money=("match.amount",)
    )
