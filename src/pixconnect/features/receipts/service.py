"""Makes the receipt of a transfer or refund that has settled, for callers and visitors of the console alike.

Also the known facts about a transfer's two sides, and its names for the network and the institution.
"""

from __future__ import annotations

from msgspec import Struct, structs

from pixconnect.features.finding.tables import timeline as timeline_store
from pixconnect.features.institutions.profiles.profile import read_profile
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.tables import charge_opening as opening_store
from pixconnect.features.receipts import rules as receipts
from pixconnect.features.receipts.rules import Receipt, ReceiptKind
from pixconnect.kernel.flows.before_order import find_wait
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.payee import with_payee
from pixconnect.kernel.flows.transfer import read_transfer_by_id, view_transfer
from pixconnect.kernel.rules.access import READ_SCOPES, Caller, Viewer
from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.order import OrderWait
from pixconnect.kernel.rules.refund import THEIRS_PREFIX, Refund
from pixconnect.kernel.rules.transfer import Transfer, TransferView
from pixconnect.platform.base import errors


class PartiesView(Struct, frozen=True, kw_only=True):
    view: TransferView
    is_named_by_us: bool
    """Its end-to-end id is ours alone: the network never got it, or has its own name, unknown yet."""
    institution: str | None
    """The account at an institution on which it lies, as the operator named it."""
    network_txid: str | None
    """Its txid on the network, if the institution does not accept ours."""
    wait: OrderWait | None = None
    """While it waits for a person."""


async def read_parties(context: Context, caller: Caller, transfer_id: int) -> PartiesView:
    """Read a transfer of the caller's with the known facts about its sides.

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
    wait = None
    if transfer.direction == "OUT" and transfer.status == "PROCESSING":
        wait = await find_wait(context.pool, transfer.end_to_end_id)
    is_ours = is_named_by_us(transfer, keeps_our_id=context.policy.abilities.keeps_our_id)
    return PartiesView(
        view=view,
        is_named_by_us=is_ours,
        institution=institution,
        network_txid=network_txid,
        wait=wait,
    )


def is_named_by_us(transfer: Transfer, *, keeps_our_id: bool) -> bool:
    """Whether the shown end-to-end id is ours alone."""
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
        # For some returns made there no list has the network's name.
        return refund.external_id != THEIRS_PREFIX + refund.return_id
    return original.institution_id is not None or not keeps_our_id


async def read_receipt(context: Context, viewer: Viewer, kind: ReceiptKind, resource_id: int) -> Receipt:
    """The receipt of a transfer or a refund.

    Raises:
        Forbidden: The viewer may not see things of this kind.
        NotFound: There is none, it is another holder's, or it has not settled: what may still fail proves nothing.
    """
    # First, so that who may see none learns of none.
    viewer.require(READ_SCOPES[kind])
    if kind == "transfer":
        return await _read_of_transfer(context, viewer, resource_id)
    refund = await timeline_store.find_refund(context.pool, resource_id, viewer.holder_id)
    if refund is None:
        raise errors.NotFound("id: there is no such refund")
    if refund.settled_at is None:
        raise errors.NotFound(f"id: this refund is {refund.status}; only one that was returned has a receipt")
    original = await timeline_store.find_transfer(context.pool, refund.transfer_id, refund.holder_id)
    return await _of_refund(context, refund, errors.require(original, "a refund has its transfer"))


async def _read_of_transfer(context: Context, viewer: Viewer, transfer_id: int) -> Receipt:
    transfer = await timeline_store.find_transfer(context.pool, transfer_id, viewer.holder_id)
    if transfer is None:
        raise errors.NotFound("id: there is no such transfer")
    if transfer.settled_at is None:
        raise errors.NotFound(f"id: this transfer is {transfer.status}; only one that has settled has a receipt")
    return await _of_transfer(context, transfer)


async def _of_transfer(context: Context, transfer: Transfer) -> Receipt:
    view = await view_transfer(context, await with_payee(context.pool, transfer))
    # All are of one environment, and so are settlements beside them.
    accounts = await context.institutions.list_all()
    account = next((one for one in accounts if one.id == transfer.institution_id), None)
    payer, payee = view.debit_party, view.credit_party
    # Only of the own side: where the other's account is, the network says.
    if transfer.direction == "IN":
        payee = _name_institution(payee, account)
    else:
        payer = _name_institution(payer, account)
    is_ours = is_named_by_us(transfer, keeps_our_id=context.policy.abilities.keeps_our_id)
    return Receipt(
        kind="transfer",
        id=transfer.id,
        holder_id=transfer.holder_id,
        direction=transfer.direction,
        amount_cents=transfer.amount_cents,
        # The other side's receipt has the same.
        settled_at=transfer.network_settled_at or errors.require(transfer.settled_at, "judged before"),
        payer=receipts.show_receipt_party(payer, is_payee=False),
        payee=receipts.show_receipt_party(payee, is_payee=True),
        # A reader of the receipt asks another institution about it, which does not know ours.
        end_to_end_id=None if is_ours else transfer.shown_id,
        return_id=None,
        txid=transfer.txid,
        code_kind=receipts.find_code_kind(transfer),
        returned_cents=transfer.returned_cents,
        message=transfer.payer_message,
        is_book=transfer.is_book,
        is_test=context.policy.is_sandbox or any(one.environment != "production" for one in accounts),
    )


async def _of_refund(context: Context, refund: Refund, original: Transfer) -> Receipt:
    whole = await _of_transfer(context, original)
    is_ours = is_return_named_by_us(refund, original, keeps_our_id=context.policy.abilities.keeps_our_id)
    return structs.replace(
        whole,
        kind="refund",
        id=refund.id,
        direction=refund.flow,
        amount_cents=refund.amount_cents,
        settled_at=refund.network_settled_at or errors.require(refund.settled_at, "judged before"),
        # A payment to a key goes back to an account: neither side has a key here.
        payer=structs.replace(whole.payee, key=None),
        payee=whole.payer,
        return_id=None if is_ours else refund.shown_id,
        # The whole of it has gone back: that is what it is.
        returned_cents=0,
        message=refund.description,
    )


def _name_institution(own: Party, account: InstitutionAccount | None) -> Party:
    """The own side with the institution at which its account is, where it is not this one."""
    if account is None:
        return own
    profile = read_profile(account.profile)
    return structs.replace(own, bank=profile.title, ispb=profile.ispb)
