"""The known facts about a transfer's parties, on the wire."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from pixconnect.doors.api.envelope import Instant
from pixconnect.doors.api.operation import Nothing, Request, Services
from pixconnect.features.receipts import service as receipt_usecases
from pixconnect.features.receipts.service import PartiesView
from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.known_party import Certainty, judge_member
from pixconnect.kernel.rules.order import HoldsUp
from pixconnect.platform.base.clock import format_instant


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
    `approval`, or `funds` there, which may take days. Its status stays `PROCESSING`."""
    waits_since: Instant | None = None
    """Since when, or when that was first seen."""


async def get_transfer_parties(services: Services, request: Request[int, Nothing, Nothing]) -> TransferParties:
    """Read the known facts about a transfer's parties.

    An institution may report a payer not at all, masked, or later. The transfer itself always has all members: here you see
    which of them are known. The event `transfer.in.completed` announces members that became known later.
    """
    return show_parties(await receipt_usecases.read_parties(services.context, request.caller, request.parameter))


def show_parties(found: PartiesView) -> TransferParties:
    transfer, view = found.view.transfer, found.view
    is_told = transfer.institution_id is not None
    return TransferParties(
        payer=_show_known(view.debit_party, is_told=is_told and transfer.direction == "IN"),
        payee=_show_known(view.credit_party, is_told=is_told and transfer.direction == "OUT"),
        end_to_end_id=transfer.shown_id,
        is_end_to_end_id_ours=found.is_named_by_us,
        transaction_identification=transfer.txid,
        network_transaction_identification=found.network_txid,
        institution=found.institution,
        waits_for=found.wait and found.wait.waits_for,
        waits_since=found.wait and format_instant(found.wait.since),
    )


def _show_known(party: Party, *, is_told: bool) -> KnownParty:
    members = {member: _show_member(party, member) for member in KnownParty.__struct_fields__}
    # An account's kind looks the same whether known or unknown: institutions never report it.
    kind = PartyMember(certainty="unknown") if is_told else PartyMember(certainty="known", value=party.account_type)
    return KnownParty(**members | dict(account_type=kind))


def _show_member(party: Party, member: str) -> PartyMember:
    certainty = judge_member(party, member)
    return PartyMember(certainty=certainty, value=None if certainty == "unknown" else getattr(party, member))
