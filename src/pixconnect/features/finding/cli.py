"""``pixconnect find``: resources by id, and orders that the rail has not ended, of all holders."""

from datetime import datetime, timedelta
from typing import Annotated, Final

from cyclopts import Parameter
from msgspec import structs

from pixconnect.doors.cli import operating, output, terminal
from pixconnect.doors.cli.failures import CommandError
from pixconnect.doors.cli.operating import HolderId
from pixconnect.doors.cli.output import Json
from pixconnect.doors.cli.whole_number import WHOLE_NUMBER, read_day
from pixconnect.doors.console.wanted import Wanted, find_time
from pixconnect.features.finding.service import search as search_usecases
from pixconnect.features.finding.tables.search import Found
from pixconnect.features.identity.cli.client import show_asker
from pixconnect.features.institutions.service.monitoring import list_waiting_charges
from pixconnect.features.institutions.tables.pending_call import WaitingCharge
from pixconnect.kernel.flows import unresolved as unresolved_usecases
from pixconnect.kernel.flows.context import Operator
from pixconnect.kernel.rules.order import OpenOrder
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.tax_id import is_cnpj, is_cpf, unmask_tax_id
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import lease as lease_store
from pixconnect.kernel.tables.clock import service_now
from pixconnect.kernel.tables.origin import Origin
from pixconnect.platform.base.clock import format_local

_MONEY: Final = ("amount", "asked_amount", "amount_returned")


def find(  # noqa: PLR0913  each narrows the search
    any_id: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    *,
    unresolved: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    silent_for_s: Annotated[int, WHOLE_NUMBER, Parameter(show_default=True)] = 60,
    holder_id: HolderId | None = None,
    part: str | None = None,
    name: str | None = None,
    amount: Annotated[int | None, WHOLE_NUMBER] = None,
    day: str | None = None,
    tax_id: str | None = None,
    json: Json = False,
) -> None:
    """Print the resources with an id, of all holders: at most a hundred of each kind.

    A few are printed with the payments that were held or refused for a charge, and with refunds.
    The id may be one of ours (each kind numbers its own, so several resources may have it), an external_id or its beginning, a
    txid (ours, or the institution's own), the text of a charge's code or the reference of a static one, an end-to-end id or a
    return id (or half of it), an institution's name of an infraction, a client_id, a Pix key, an account number, or the
    request_id of an answer: that leads to the resources made by the request, which are none if it was refused. Requests of the
    last 400 days are shown with their origin: the client and its token, the address, the request, or the operator.

    A CPF or CNPJ, the middle of a CPF ('***.982.247-**') and a name lead to holders, and to payments by or to others of it,
    alone or with a day: 'Maria 27/11'. So does an amount: '123,45', '150 yesterday', '1,234.56 27 nov Maria'. Without an id,
    rows are read back from the newest for a bounded time, and a time of day is left out.

    If more is known, `--part`, `--name`, `--amount`, `--day` and `--tax-id` look for charges, transfers and refunds; all that
    are given must hold.

    With `--unresolved` print what the rail has not ended: transfers and refunds that were sent to it, payments that it
    accepted, and charges at institutions that are being opened or changed, the longest silent first. The service keeps querying
    sent orders, for as long as it takes. There is no verb to settle or fail one by hand: that is how money is paid twice.

    Args:
        any_id: An id, an amount such as '25,50' or '25,50 27/11 Maria', a name, a CPF or CNPJ, or a request_id.
        part: A part of an external_id, an end-to-end id, a return id, a charge's txid or a payer's message.
        name: A part of the counterparty's name.
        amount: In cents.
        day: The day in Sao Paulo on which it settled (an unpaid charge: was made): 2026-11-20, 20/11/2026, 20/11, yesterday.
        tax_id: The CPF or CNPJ of the counterparty.
        unresolved: Orders that the rail has not ended; with an id, this transfer, payment or refund only.
        silent_for_s: With `--unresolved`: only those sent or accepted at least this many seconds ago.
        holder_id: With `--unresolved`, or without an id: of this holder only.
    """
    if unresolved:
        show_unresolved(any_id, silent_for_s, holder_id, as_json=json)
        return
    if any_id is not None:
        found, searched_to = operating.run(search_usecases.find_with_origins, any_id)
        shown = [_shown(one, origin) for one, origin in found]
        if time := find_time(any_id):
            terminal.notice(f"the time {time} was left out")
    elif (part, name, amount, day, tax_id) != (None,) * 5:
        looked, searched_to = operating.run(_look_for, holder_id, _read_wanted(part, name, amount, tax_id), day)
        shown = [_shown(one, None) for one in looked]
    else:
        raise CommandError("--any-id: missing; give an id or another known fact, or list orders with `--unresolved`")
    output.show_list("found", shown, as_json=json, money=_MONEY)
    if searched_to is not None:
        terminal.notice(f"looked back to {format_local(searched_to)}: name a day or a holder to look further")


def _read_wanted(part: str | None, name: str | None, amount_cents: int | None, tax_id: str | None) -> Wanted:
    if name is not None and tax_id is not None:
        raise CommandError("--name: name it or the tax id, not both")
    # An institution that does not report the payer leaves a CPF of zeros, which belongs to no person.
    bare = None if tax_id is None else unmask_tax_id(tax_id)
    if bare is not None and not (is_cpf(bare) or is_cnpj(bare)):
        raise CommandError("--tax-id: must be a CPF or a CNPJ")
    return Wanted(
        amount_min_cents=amount_cents, amount_max_cents=amount_cents, counterparty=bare or name or None, name_part=part or None
    )


async def _look_for(
    context: Operator, holder_id: int | None, wanted: Wanted, day: str | None
) -> tuple[list[Found], datetime | None]:
    wanted_day = None if day is None else read_day(day, await service_now(context.clock, context.pool))
    return await search_usecases.look_for(context, holder_id, wanted, wanted_day)


def _shown(found: Found, origin: Origin | None) -> output.Shown:
    names = (
        "kind id holder_id external_id name status direction amount=amount_cents asked_amount=asked_cents "
        "amount_returned=returned_cents counterparty=party named_payer open_infraction waits_for "
        "held_as_suspect_until message reason outcome created_at settled_at"
    )
    payment = found.payment and found.payment.name
    asked_for_by = None if origin is None else show_asker(origin)
    return output.pick(found, names) | {"end_to_end_id": payment, "asked_for_by": asked_for_by}


Unresolved = tuple[list[tuple[OpenOrder, Transfer | Refund | None]], list[Transfer], list[WaitingCharge]]
"""Orders with their subjects, accepted payments, and charges at institutions."""


def show_unresolved(name: str | None, silent_for_s: int, holder_id: int | None, *, as_json: bool) -> None:
    """Print orders that the rail has not ended, the longest silent first; ``name`` is an end-to-end id, return id or txid."""
    asked = timedelta(seconds=silent_for_s), holder_id, name

    async def look(context: Operator) -> tuple[Unresolved, float | None]:
        charges = await list_waiting_charges(context, *asked)
        if name is not None and not charges:
            await unresolved_usecases.check_known(context, name)
        found = await unresolved_usecases.list_unresolved(context, *asked)
        unresolved = found, await unresolved_usecases.list_accepted(context, *asked), charges
        return unresolved, await lease_store.read_silent_s(context.pool)

    (found, accepted, charges), silent_s = operating.run(look)
    of_refund = "id holder_id return_identification=shown_id original_end_to_end_id external_id amount=amount_cents"
    of_accepted = "id holder_id end_to_end_id charge_id amount=amount_cents accepted_at=created_at"
    output.show_lists(
        {
            "transfers": [_shown_transfer(order, one) for order, one in found if not isinstance(one, Refund)],
            "refunds": [output.pick(one, of_refund) | _shown_order(order) for order, one in found if isinstance(one, Refund)],
            "accepted": [output.pick(one, of_accepted) for one in accepted],
            "charges": [structs.asdict(one) for one in charges],
        },
        as_json=as_json,
        money=_MONEY,
    )
    if lease_store.is_without_worker(silent_s):
        terminal.notice("no worker is running: orders that none has sent yet wait, and are not listed")


def _shown_transfer(order: OpenOrder, transfer: Transfer | None) -> output.Shown:
    # The row can be missing, which only an operator can find out about: then the order's own facts are shown.
    return {
        "id": order.resource_id,
        "holder_id": order.holder_id,
        "end_to_end_id": order.network_id or order.name,
        "external_id": transfer and transfer.external_id,
        "amount": transfer and transfer.amount_cents,
    } | _shown_order(order)


def _shown_order(order: OpenOrder) -> output.Shown:
    return output.pick(order, "handed_at asked_count next_asked_at=due_at")
