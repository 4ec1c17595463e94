"""``pixconnect find --unresolved``: transfers and refunds that are under way."""

from datetime import timedelta

from msgspec import structs

from pixconnect.cli.frame import operating, output
from pixconnect.domain.money.order import OpenOrder
from pixconnect.domain.money.refund import Refund
from pixconnect.domain.money.transfer import Transfer
from pixconnect.store.institutions.waiting_charge import WaitingCharge
from pixconnect.usecases.frame.context import Operator
from pixconnect.usecases.money import unresolved as unresolved_usecases

Unresolved = tuple[list[tuple[OpenOrder, Transfer | Refund | None]], list[Transfer], list[WaitingCharge]]
"""Orders with what they are of, payments that were accepted, and charges at institutions."""


def show_unresolved(name: str | None, silent_for_s: int, holder_id: int | None, *, as_json: bool) -> None:
    """Print what the rail has not ended, the longest silent first.

    Args:
        name: This end-to-end id, return id or txid only.
        silent_for_s: Only those sent or accepted at least this many seconds ago.
        holder_id: Only this holder's orders.
    """
    asked = timedelta(seconds=silent_for_s), holder_id, name

    async def look(context: Operator) -> Unresolved:
        charges = await unresolved_usecases.list_waiting_charges(context, *asked)
        if name is not None and not charges:
            await unresolved_usecases.check_known(context, name)
        found = await unresolved_usecases.list_unresolved(context, *asked)
        return found, await unresolved_usecases.list_accepted(context, *asked), charges

    found, accepted, charges = operating.run(look)
    output.show_lists(
        {
            "transfers": [_shown_transfer(order, one) for order, one in found if not isinstance(one, Refund)],
            "refunds": [_shown_refund(order, one) for order, one in found if isinstance(one, Refund)],
            "accepted": [_shown_credit(one) for one in accepted],
            "charges": [structs.asdict(one) for one in charges],
        },
        as_json=as_json,
    )


def _shown_transfer(order: OpenOrder, transfer: Transfer | None) -> output.Shown:
    # The row can be missing, which only an operator can find out about: then there is what the order says.
    return {
        "id": order.resource_id,
        "holder_id": order.holder_id,
        "end_to_end_id": order.network_id or order.name,
        "external_id": transfer and transfer.external_id,
        "amount": transfer and transfer.amount_cents,
    } | _shown_order(order)


def _shown_refund(order: OpenOrder, refund: Refund) -> output.Shown:
    names = "return_identification=shown_id original_end_to_end_id external_id"
    return output.pick(refund, f"id holder_id {names} amount=amount_cents") | _shown_order(order)


def _shown_credit(transfer: Transfer) -> output.Shown:
    return output.pick(transfer, "id holder_id end_to_end_id charge_id amount=amount_cents accepted_at=created_at")


def _shown_order(order: OpenOrder) -> output.Shown:
    return output.pick(order, "handed_at asked_count next_asked_at=due_at")
