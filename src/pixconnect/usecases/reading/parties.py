"""What is known of a transfer's two sides, and by which names the network and the institution know it."""

from __future__ import annotations

from msgspec import Struct, structs

from pixconnect.domain.identity.access import Caller
from pixconnect.domain.money.refund import THEIRS_PREFIX, Refund
from pixconnect.domain.money.transfer import Transfer, TransferView
from pixconnect.store.institutions import charge_opening as opening_store
from pixconnect.store.money import approval as approval_store
from pixconnect.store.money import waiting_order as waiting_order_store
from pixconnect.store.money.approval import PendingApproval
from pixconnect.store.money.waiting_order import WaitingOrder
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.money.payee import with_payee
from pixconnect.usecases.money.transfer import read_transfer_by_id


class PartiesView(Struct, frozen=True, kw_only=True):
    view: TransferView
    is_named_by_us: bool
    """Its end-to-end id is ours alone: the network has never been told it, or has one of its own that nobody knows yet."""
    institution: str | None
    """The account at an institution on which it lies, as the operator named it."""
    network_txid: str | None
    """Its txid as the network has it, where the institution takes none of ours."""
    waiting: WaitingOrder | None = None
    """While it waits for a person there."""
    awaited: PendingApproval | None = None
    """While it waits for an operator's yes here."""


async def read_parties(context: Context, caller: Caller, transfer_id: int) -> PartiesView:
    """Read a transfer of the caller's with what is known of its sides.

    Raises:
        NotFound: The caller has none of this id.
    """
    view = await read_transfer_by_id(context, caller, transfer_id)
    if view.transfer.direction == "OUT":
        known = await with_payee(context.pool, view.transfer)
        view = structs.replace(view, transfer=known, credit_party=known.counterparty)
    transfer = view.transfer
    institution, network_txid = None, None
    if transfer.institution_id is not None:
        accounts = await context.institutions.list_all()
        institution = next((one.name for one in accounts if one.id == transfer.institution_id), None)
        if transfer.txid is not None:
            opening = await opening_store.find_txid(context.pool, transfer.institution_id, transfer.txid)
            network_txid = None if opening is None else opening.network_txid
    waiting = awaited = None
    if transfer.direction == "OUT" and transfer.status == "PROCESSING":
        awaited = await approval_store.find_awaited(context.pool, transfer.end_to_end_id)
        found = await waiting_order_store.find(context.pool, [transfer.end_to_end_id])
        waiting = found.get(transfer.end_to_end_id)
    is_ours = is_named_by_us(transfer, keeps_our_id=context.policy.abilities.keeps_our_id)
    return PartiesView(
        view=view,
        is_named_by_us=is_ours,
        institution=institution,
        network_txid=network_txid,
        waiting=waiting,
        awaited=awaited,
    )


def is_named_by_us(transfer: Transfer, *, keeps_our_id: bool) -> bool:
    """Whether the end-to-end id that is shown of it is ours alone."""
    if transfer.is_book or transfer.status == "CANCELLED":
        return True
    if transfer.direction == "IN" or transfer.network_id is not None:
        return False
    # Institutions make names of their own; of the installation's own rail its abilities say it.
    return transfer.institution_id is not None or not keeps_our_id


def is_return_named_by_us(refund: Refund, original: Transfer, *, keeps_our_id: bool) -> bool:
    """The same of a refund's id."""
    if refund.is_book:
        return True
    if refund.flow == "IN" or refund.network_id is not None:
        return False
    if refund.made_by == "institution":
        # Of some returns that were made there no list tells the network's name.
        return refund.external_id != THEIRS_PREFIX + refund.return_id
    return original.institution_id is not None or not keeps_our_id
