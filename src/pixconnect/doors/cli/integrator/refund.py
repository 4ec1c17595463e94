"""``pixconnect refund``: return received money."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Annotated, Final, get_args

from cyclopts import App, Parameter

from pixconnect.doors.cli import output, records, terminal
from pixconnect.doors.cli.failures import CommandError
from pixconnect.doors.cli.integrator import transfer
from pixconnect.doors.cli.integrator.session import open_session
from pixconnect.doors.cli.integrator.transfer import PdfFile, show_receipt
from pixconnect.doors.cli.output import Json
from pixconnect.doors.cli.records import Amount, AnyId, ByExternalId, ExternalId, Limit, TimeoutS
from pixconnect.kernel.rules.money import show_reais
from pixconnect.kernel.rules.refund import RefundReason, RefundStatus
from pixconnect.platform.base.clock import format_local
from pixconnect_client import Charge, Client, Forbidden, NotFound, Refund, Transfer

app = App(name="refund", help="Refund payments that you received.")

TheRefund = Annotated[AnyId, Parameter(help="Its id, external_id or return_identification.")]
_COLUMNS = ("id", "status", "flow", "amount", "return_identification", "external_id")


@app.command
def create(
    received: Annotated[AnyId, Parameter(help="The id or end_to_end_id of the transfer that you received.")],
    *,
    amount: Amount | None = None,
    external_id: ExternalId = None,
    reason: RefundReason | None = None,
    description: str | None = None,
    json: Json = False,
) -> None:
    """Return a received Pix, wholly or in part.

    Args:
        amount: In cents; all of it if left out.
        reason: Why; MD06, requested by the payer, if left out.
        description: For the payer to read.
    """
    with open_session() as session:
        options = {"--amount": amount, "--external-id": external_id, "--reason": reason, "--description": description}
        given = "".join(f" {flag} {shlex.quote(str(value))}" for flag, value in options.items() if value is not None)
        original = _find_received(session.client, received, given)
        _show_earlier(session.client, original, external_id)
        made = session.client.refunds.create(
            original.end_to_end_id,
            original.amount if amount is None else amount,
            external_id=external_id,
            reason=reason,
            description=description,
        )
    records.show(made, as_json=json)


def _find_received(client: Client, received: str, given: str) -> Transfer:
    """Find a payment; ``given`` are the other words of the command, for the right one."""
    received = records.join_groups(received)
    try:
        found = transfer.find(client, received)
    except CommandError:
        found = None
    if found is not None and found.end_to_end_id == received:
        return found
    # People refund "an order": that is the charge's name, and the refund returns its payment.
    paid = [each for each in _list_paying(client, received) if found is None or each != found.end_to_end_id]
    if paid:
        ways = " or ".join(f"`pixconnect refund create {each}{given}`" for each in paid)
        is_both = "" if found is None else f"; transfer {found.id} by `pixconnect refund create {found.end_to_end_id}{given}`"
        raise CommandError(f"{received} is a charge; what paid it is given back by {ways}{is_both}")
    if found is None:
        raise CommandError(f"there is no transfer {received} of this holder that was received; a charge has to be paid first")
    return found


_EARLIER_MAX: Final = 100  # refunds since a payment, the newest, among which its own are looked for


def _show_earlier(client: Client, original: Transfer, external_id: str | None) -> None:
    """Name the earlier refunds of a payment on standard error, as far as the caller may see them."""
    with suppress(Forbidden):
        made = islice(client.refunds.list(initial_date=original.create_timestamp, page_size=_EARLIER_MAX), _EARLIER_MAX)
        own = [each for each in made if each.original_end_to_end_id == original.end_to_end_id and each.status != "ERROR"]
        for each in own:
            if external_id is None or each.external_id != external_id:
                at = format_local(each.create_timestamp)
                terminal.notice(f"refunded before: {show_reais(each.amount)} by refund {each.id}, {at}, {each.status}")


def _list_paying(client: Client, name: str) -> list[str]:
    """The end-to-end ids of what paid the charges that have this external id or id."""
    looks: list[Callable[[], Charge]] = [lambda: client.charges.get_by_external_id(name)]
    if (number := records.read_id(name)) is not None:
        looks.append(lambda: client.charges.get(number))
    paying: list[str] = []
    for look in looks:
        with suppress(NotFound, Forbidden):
            paying.append(client.charges.payment(look().id).end_to_end_id)
    return sorted(set(paying))


@app.command
def show(refund: TheRefund, *, external_id: ByExternalId = False, json: Json = False) -> None:
    """Print a refund; if it failed, why."""
    with open_session() as session:
        found = find(session.client, refund, is_external_id=external_id)
        outcome = session.client.refunds.outcome(found.id)
    shown = records.shown(found) | {"outcome_code": outcome.code, "outcome_reason": outcome.reason}
    output.show(shown, as_json=json, money=records.MONEY)


@app.command
def receipt(refund: TheRefund, *, external_id: ByExternalId = False, pdf: PdfFile = None, json: Json = False) -> None:
    """Print the receipt of a refund that was returned, or write it as PDF (comprovante)."""
    with open_session() as session:
        found, refunds = find(session.client, refund, is_external_id=external_id), session.client.refunds
        show_receipt(found.id, refunds.receipt, refunds.receipt_file, pdf, as_json=json)


@app.command(name="list")
def list_refunds(*, status: RefundStatus | None = None, limit: Limit = 20, json: Json = False) -> None:
    """Print refunds of both directions, newest first.

    Args:
        status: Only refunds with this status.
    """
    with open_session() as session:
        taken = records.read_each(session.client.refunds.list, [status] if status else get_args(RefundStatus), limit)
        found = sorted(taken, key=lambda refund: refund.create_timestamp, reverse=True)[:limit]
    records.show_items("refunds", found, _COLUMNS, as_json=json)


@app.command
def watch(refund: TheRefund, *, external_id: ByExternalId = False, timeout_s: TimeoutS = None, json: Json = False) -> None:
    """Print a refund's status whenever it changes, until it has ended."""
    with open_session() as session:
        found = find(session.client, refund, is_external_id=external_id)
        records.watch(lambda: session.client.refunds.get(found.id), {"PROCESSING"}, "RETURNED", timeout_s, as_json=json)


def find(client: Client, any_id: str, *, is_external_id: bool) -> Refund:
    of = client.refunds
    ways = of.get, of.get_by_external_id, of.get_by_return_identification
    return records.find("refund", any_id, *ways, is_external_id=is_external_id)
