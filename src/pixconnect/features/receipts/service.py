"""Receipts of settled transfers and refunds, for callers and visitors of the console alike.

Also the known facts about a transfer's two sides, and its names for the network and the institution.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct, structs

from pixconnect.doors.api.envelope import Instant
from pixconnect.doors.api.operation import Nothing, Request, Services
from pixconnect.features.institutions.accounts import INSTITUTIONS
from pixconnect.features.institutions.profiles.profile import read_profile
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.tables import pending_call as call_store
from pixconnect.features.receipts import rules as receipts
from pixconnect.features.receipts.rules import Receipt, ReceiptKind
from pixconnect.kernel.flows.before_order import find_wait
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.credit import find_suspect_credits
from pixconnect.kernel.flows.payee import with_payee
from pixconnect.kernel.flows.transfer import read_transfer_by_id, view_transfer
from pixconnect.kernel.rules.access import Caller, Viewer
from pixconnect.kernel.rules.holder import Certainty, Party, judge_member
from pixconnect.kernel.rules.order import HoldsUp, OrderWait
from pixconnect.kernel.rules.refund import THEIRS_PREFIX, Refund
from pixconnect.kernel.rules.transfer import Transfer, TransferView
from pixconnect.kernel.tables.lookup import of_viewer
from pixconnect.kernel.tables.refund import REFUND
from pixconnect.kernel.tables.transfer import TRANSFER
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_instant

_find_transfer: Final = of_viewer(TRANSFER)
_find_refund: Final = of_viewer(REFUND)


class PartiesView(Struct, frozen=True, kw_only=True):
    view: TransferView
    is_named_by_us: bool  # only we know its end-to-end id: the network never got it, or has its own name, unknown yet
    institution: str | None  # the account at an institution of the transfer, as the operator named it
    network_txid: str | None  # its txid on the network, if the institution does not accept ours
    wait: OrderWait | None = None  # set while it waits for a person


async def read_parties(context: Context, caller: Caller, transfer_id: int) -> PartiesView:
    """Read a transfer of the caller's with the known facts about its sides; ``NotFound`` if the caller has none of this id."""
    view = await read_transfer_by_id(context, caller, transfer_id)
    if view.transfer.direction == "OUT":
        known = await with_payee(context.pool, view.transfer)
        view = structs.replace(view, transfer=known, credit_party=known.counterparty)
    transfer = view.transfer
    institution, network_txid = None, None
    if transfer.institution_id is not None:
        accounts = await context.port(INSTITUTIONS).list_all()
        institution = next((one.name for one in accounts if one.id == transfer.institution_id), None)
        if transfer.txid is not None:
            opening = await call_store.find_opening_of_txid(context.pool, transfer.institution_id, transfer.txid)
            network_txid = None if opening is None else opening.network_txid
    wait = None
    if transfer.status == "PROCESSING":
        is_out, suspect_credits = transfer.direction == "OUT", find_suspect_credits()
        wait = await (
            find_wait(context.pool, transfer.end_to_end_id) if is_out else suspect_credits.find_hold(context.pool, transfer)
        )
    is_ours = is_named_by_us(transfer, keeps_our_id=context.policy.abilities.keeps_our_id)
    return PartiesView(view=view, is_named_by_us=is_ours, institution=institution, network_txid=network_txid, wait=wait)


def is_named_by_us(transfer: Transfer, *, keeps_our_id: bool) -> bool:
    if transfer.is_book or transfer.status == "CANCELLED":
        return True
    if transfer.direction == "IN" or transfer.network_id is not None:
        return False
    # Institutions generate names of their own; the abilities of the installation's own rail decide.
    return transfer.institution_id is not None or not keeps_our_id


def is_return_named_by_us(refund: Refund, original: Transfer, *, keeps_our_id: bool) -> bool:
    """Whether only we know a refund's shown id."""
    if refund.is_book:
        return True
    if refund.flow == "IN" or refund.network_id is not None:
        return False
    if refund.made_by == "institution":
        # For some returns made there no list has the network's name.
        return refund.external_id != THEIRS_PREFIX + refund.return_id
    return original.institution_id is not None or not keeps_our_id


async def read_receipt(context: Context, viewer: Viewer, kind: ReceiptKind, resource_id: int) -> Receipt:
    """Read the receipt of a transfer or a refund.

    Raises:
        Forbidden: The viewer may not see this kind.
        NotFound: It does not exist, is another holder's, or has not settled: a possible failure proves nothing.
    """
    # First, so that a viewer without the right learns of none.
    viewer.require_sight(kind)
    if kind == "transfer":
        own = await _find_transfer(context.pool, resource_id, viewer.holder_id)
        transfer = errors.found(own, "id: there is no such transfer")
        if transfer.settled_at is None:
            raise errors.NotFound(f"id: this transfer is {transfer.status}; only one that has settled has a receipt")
        return await _of_transfer(context, transfer)
    refund = errors.found(await _find_refund(context.pool, resource_id, viewer.holder_id), "id: there is no such refund")
    if refund.settled_at is None:
        raise errors.NotFound(f"id: this refund is {refund.status}; only one that was returned has a receipt")
    found = await _find_transfer(context.pool, refund.transfer_id, refund.holder_id)
    original = errors.require(found, "a refund has its transfer")
    whole = await _of_transfer(context, original)
    is_ours = is_return_named_by_us(refund, original, keeps_our_id=context.policy.abilities.keeps_our_id)
    return structs.replace(
        whole,
        kind="refund",
        id=refund.id,
        direction=refund.flow,
        amount_cents=refund.amount_cents,
        settled_at=refund.network_settled_at or refund.settled_at,
        # A payment to a key is returned to an account: neither side has a key here.
        payer=structs.replace(whole.payee, key=None),
        payee=whole.payer,
        return_id=None if is_ours else refund.shown_id,
        # All of it was returned, as the kind shows.
        returned_cents=0,
        message=refund.description,
    )


async def _of_transfer(context: Context, transfer: Transfer) -> Receipt:
    view = await view_transfer(context, await with_payee(context.pool, transfer))
    # All have one environment, and so do their settlements.
    accounts = await context.port(INSTITUTIONS).list_all()
    account = next((one for one in accounts if one.id == transfer.institution_id), None)
    payer, payee = view.debit_party, view.credit_party
    # Only for the own side: the network reports where the other's account is.
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


def _name_institution(own: Party, account: InstitutionAccount | None) -> Party:
    """Return the own side with the institution of its account, if it is not this one."""
    if account is None:
        return own
    profile = read_profile(account.profile)
    return structs.replace(own, bank=profile.title, ispb=profile.ispb)


# The known facts about a transfer's parties, in the API.


class PartyMember(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One member of a party, and how it is known."""

    certainty: Certainty
    """`known` is whole, `masked` has the institution's asterisks, `unknown` is not reported."""
    value: Annotated[str, Meta(examples=["Maria Silva"])] | None = None
    """Its value, unless unknown."""


class KnownParty(Struct, frozen=True, kw_only=True):
    """One side of a transfer as far as it is known. Your own side is this service's record of you."""

    account_number: PartyMember
    """With its check digit."""
    account_type: PartyMember
    """The kind of account. No institution reports a payer's."""
    bank: PartyMember
    """The institution's name."""
    branch: PartyMember
    """Without a check digit."""
    ispb: PartyMember
    """The institution's identifier."""
    key: PartyMember
    """The Pix key that was paid or found; a payer's is never reported."""
    key_type: PartyMember
    """The key's type."""
    name: PartyMember
    """The account's owner."""
    tax_id: PartyMember
    """The owner's CPF or CNPJ."""


class TransferParties(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The known facts about both sides of a transfer, and its names."""

    payer: KnownParty
    """The payer."""
    payee: KnownParty
    """The payee."""
    end_to_end_id: Annotated[str, Meta(examples=["E99999003202611201234a1B2c3D4e5F"])]
    """Its name."""
    is_end_to_end_id_ours: bool
    """Whether that name is this service's alone: the network does not know it, so no other institution finds the Pix by it.
    False once it is the network's."""
    transaction_identification: Annotated[str, Meta(min_length=1, max_length=35)] | None = None
    """Its txid, if there is one; for one of your charges this service's, at any institution."""
    network_transaction_identification: Annotated[str, Meta(min_length=1, max_length=35)] | None = None
    """That txid as made by the institution and used by the network, if the institution does not accept ours."""
    institution: Annotated[str, Meta(examples=["loja"])] | None = None
    """The account at an institution on which it lies, as the operator calls it."""
    waits_for: HoldsUp | None = None
    """The pending task of a person: an `operator` of this service has to approve it, within 11 hours; or at the institution its
    `approval`, or `funds` there, which may take days. A received one is held as suspect by its `institution`: do not deliver
    yet. Its status stays `PROCESSING`."""
    waits_since: Instant | None = None
    """Since when, or when that was first seen."""


async def get_transfer_parties(services: Services, request: Request[int, Nothing, Nothing]) -> TransferParties:
    """Read the known facts about a transfer's parties.

    An institution may report a payer not at all, masked, or later. The transfer itself always has all members: here you see
    which of them are known. The event `transfer.in.completed` announces members that became known later.
    """
    return show_parties(await read_parties(services.context, request.caller, request.parameter))


def show_parties(found: PartiesView) -> TransferParties:
    transfer, view = found.view.transfer, found.view
    is_reported = transfer.institution_id is not None
    return TransferParties(
        payer=_show_known(view.debit_party, is_reported=is_reported and transfer.direction == "IN"),
        payee=_show_known(view.credit_party, is_reported=is_reported and transfer.direction == "OUT"),
        end_to_end_id=transfer.shown_id,
        is_end_to_end_id_ours=found.is_named_by_us,
        transaction_identification=transfer.txid,
        network_transaction_identification=found.network_txid,
        institution=found.institution,
        waits_for=found.wait and found.wait.waits_for,
        waits_since=found.wait and format_instant(found.wait.since),
    )


def _show_known(party: Party, *, is_reported: bool) -> KnownParty:
    members: dict[str, PartyMember] = {}
    for member in KnownParty.__struct_fields__:
        certainty = judge_member(party, member)
        value = None if certainty == "unknown" else getattr(party, member)
        members[member] = PartyMember(certainty=certainty, value=value)
    # An account's kind looks the same whether known or unknown: institutions never report it.
    kind = PartyMember(certainty="unknown") if is_reported else PartyMember(certainty="known", value=party.account_type)
    return KnownParty(**members | dict(account_type=kind))
