"""An account at an institution as the source of transfers, refunds and charges.

The institution finds a key's owner when it pays. Up to then the payee is the key alone, with its owner if the caller named one:
the institution compares it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final

from msgspec import structs

from pixconnect.features.institutions.accounts import INSTITUTIONS, explain_pause, find_named_charge, is_lost
from pixconnect.features.institutions.rules.account import ABILITIES
from pixconnect.features.institutions.rules.institution import OpenAccount
from pixconnect.features.institutions.rules.rail_memory import name_at_institution
from pixconnect.features.institutions.rules.sweep import REPEATED_FOR
from pixconnect.features.institutions.service.charge_opening import explain_refusal, open_at_institution, want_charge
from pixconnect.features.institutions.service.pending_call import RefusedByInstitution
from pixconnect.features.institutions.service.succession import create_holder_on_account, move_holder
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import returns as return_store
from pixconnect.kernel.flows.context import Context, Operator
from pixconnect.kernel.flows.directory import OwnAccount, with_key
from pixconnect.kernel.flows.holder import NewHolder
from pixconnect.kernel.flows.lookup_budget import Lookup
from pixconnect.kernel.flows.source import Accounts, Source, Way
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import Charge, ChargeRequest
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY, Holder, PixKey
from pixconnect.kernel.rules.rail import Abilities
from pixconnect.kernel.rules.refund import NewRefund, Refund
from pixconnect.kernel.rules.transfer import Payee, QrCodeTransferRequest, SendingTerms, TransferRequest
from pixconnect.kernel.tables import holder as holder_store
from pixconnect.kernel.tables import order as order_store
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection, Pool

_UNSENT_S: Final = 5  # Retry-After while others wait to be sent
_SHARE_OF_HANDOVER: Final = 0.5
"""Fraction of the time in which an order must leave; orders accepted beyond that may be given up."""
_LATER: Final = "funds and limits allow it"
_FOUND_OUT: Final = "an operator has found out at the institution that it is not"


class InstitutionSource(Source, frozen=True, kw_only=True):
    account_id: int
    sends_in_turn: bool = True
    may_name_payee_at_end: bool = True

    async def find_payee(
        self, context: Context, payer: OwnAccount, key: PixKey, end_to_end_id: str, lookup: Lookup
    ) -> Payee | None:
        del context, payer, end_to_end_id
        # Only the institution finds out whether the key exists, by paying; a refusal before that reveals that it is not ours.
        lookup.found = "somebody"
        # A CPF or CNPJ is its owner's.
        owner = {"tax_id": key.key} if key.key_type in ("CPF", "CNPJ") else {}
        return Payee(party=structs.replace(with_key(UNKNOWN_PARTY, key), **owner), holder_id=None)

    async def choose_way(
        self, context: Context, payer: OwnAccount, request: TransferRequest, payee: Payee, terms: SendingTerms
    ) -> Way:
        opened = await context.port(INSTITUTIONS).find(self.account_id)
        if opened is None:
            raise await explain_pause(context.port(INSTITUTIONS), self.account_id)
        _check_takes(opened, request, payee)
        named = _name_owner(opened, payee, terms)
        if opened.institution.traits.names_first and request.external_id is not None:
            # It has none of our names, so no later query can show whether it was paid before.
            await self.admit_forgotten(context, request, _FOUND_OUT)
        await _check_flow(context, opened)
        payer_key = terms.payer_key or await _choose_key(context, opened, payer)
        return Way(
            payer=payer.party,
            payee=named,
            terms=structs.replace(terms, payer_key=payer_key),
            account_id=self.account_id,
            br_code=request.br_code if isinstance(request, QrCodeTransferRequest) else None,
            spends_lookup=True,
        )

    async def admit_forgotten(self, context: Context, request: TransferRequest, until: str = _LATER) -> None:
        if await is_lost(context.port(INSTITUTIONS), self.account_id):
            raise _explain_unread(request)
        if await return_store.may_be_forgotten(
            context.pool, self.account_id, request.amount_cents, context.clock.now(), REPEATED_FOR
        ):
            raise errors.OutcomeUnknown(
                "the database was restored, and a Pix of this amount left the account in the time that is forgotten: it may be "
                f"this one. Repeat the request with external_id {request.external_id!r} once {until}, and under no other id"
            )

    def find_abilities(self, context: Context) -> Abilities:
        del context
        return ABILITIES

    async def check_sends(self, context: Context) -> None:
        states = {account.id: account.state for account in await context.port(INSTITUTIONS).list_all()}
        if states.get(self.account_id) != "active":
            raise await explain_pause(context.port(INSTITUTIONS), self.account_id)

    async def find_named_charge(self, pool: Pool, owner: int | None, name: str) -> Charge | None:
        del owner
        return await find_named_charge(pool, self.account_id, name)


def _check_takes(opened: OpenAccount, request: TransferRequest, payee: Payee) -> None:
    """Refuse a transfer that the institution cannot send, and one to the account itself."""
    traits = opened.institution.traits
    if request.initiation_type == "MANUAL" and traits.names_first:
        raise errors.InvalidAccount(
            "credit_party: at the payer's institution a transfer to an account has no name before it is paid, so "
            "its outcome could not be queried: name a key"
        )
    if request.initiation_type not in traits.sends:
        raise errors.ServiceUnavailable(
            f"no {request.operation} is sent over accounts at this institution yet; nothing was done"
        )
    if payee.leaves_amount_open and not traits.states_amount_of_code:
        raise errors.InvalidQrCode(
            "emv: fixes no amount, and the payer's institution pays codes as they stand: send to the key instead"
        )
    # By the key alone: the owner of any other is unknown here before payment.
    if payee.party.key in opened.account.keys:
        raise errors.SameAccount("payer and payee are the same account")


async def _check_flow(context: Context, opened: OpenAccount) -> None:
    """Refuse more than the account can send in time; unlocked, as one too many costs nothing but time."""
    passed_count = opened.institution.traits.sends_per_s * context.policy.handover_timeout_s * _SHARE_OF_HANDOVER
    unsent_max = max(1, int(passed_count))
    if await order_store.count_unsent_of_account(context.pool, opened.account.id, unsent_max) >= unsent_max:
        raise errors.ServiceUnavailable(
            "more transfers wait at the holder's institution than can be sent in time; nothing was done",
            retry_after_s=_UNSENT_S,
        )


async def _check_read(context: Context, account_id: int, request: TransferRequest, lost_since: datetime) -> None:
    """Refuse as unknown while a worker has not read the lost days of an account that was added after the loss."""
    if not await day_store.list_unread_of_loss(context.pool, account_id, lost_since):
        return
    opened = await context.port(INSTITUTIONS).find_read(account_id)
    # Without a statement by API, only an operator can record it.
    if opened is not None and opened.institution.traits.has_statement:
        raise _explain_unread(request)


def _explain_unread(request: TransferRequest) -> errors.OutcomeUnknown:
    return errors.OutcomeUnknown(
        "the database was restored, and what it has forgotten of the holder's account was not read yet: this request may "
        f"have been done. Repeat it with external_id {request.external_id!r} later, and under no other id"
    )


def _name_owner(opened: OpenAccount, payee: Payee, terms: SendingTerms) -> Payee:
    """Return the payee with the owner that the caller named beside a key, which the institution compares."""
    if terms.payee_tax_id is None or not payee.is_key_alone:
        return payee
    if not opened.institution.traits.compares_owner:
        raise errors.PixKeyNotFound(
            "key: this institution compares no owner with a key, so its owner is unknown before payment"
        )
    return structs.replace(payee, party=structs.replace(payee.party, tax_id=terms.payee_tax_id))


async def _choose_key(context: Context, opened: OpenAccount, payer: OwnAccount) -> str | None:
    """Choose the key that pays: the holder's oldest on the account, else the house's, else any of the account."""
    async with context.pool.acquire() as connection:
        for holder_id in (payer.holder_id, opened.account.house_id):
            for key in await holder_store.list_pix_keys(connection, holder_id):
                if key.key in opened.account.keys:
                    return key.key
    return next(iter(opened.account.keys), None)


class InstitutionAccounts(Accounts):
    """Also finds refunds that a restored database has forgotten.

    The institution lists them under the names by which they were asked for, so they were recorded as made by the institution.
    """

    async def find_states(self, context: Context) -> Collection[str]:
        return {account.state for account in await context.port(INSTITUTIONS).list_all()}

    def find_source(self, account_id: int) -> Source:
        return InstitutionSource(account_id=account_id)

    async def create_holder(self, context: Operator, new: NewHolder, name: str) -> Holder:
        return await create_holder_on_account(context, new, name)

    async def move_holder(self, context: Operator, holder_id: int, name: str) -> None:
        await move_holder(context, holder_id, name)

    async def create_charge(
        self, context: Context, caller: Caller, account_id: int, request: ChargeRequest, key: str
    ) -> Charge:
        try:
            return await open_at_institution(context, caller, want_charge(context, caller, request, key), account_id)
        except RefusedByInstitution as refused:
            raise explain_refusal(refused.refusal) from None

    async def find_forgotten(self, connection: Connection, batch: Sequence[NewRefund]) -> dict[int, Refund]:
        """The refunds that the same requests had made, by the ids of the new ones."""
        over = [(new, new.account_id) for new in batch if new.account_id is not None]
        if not over:
            return {}
        keys = await return_store.read_keys(connection, sorted({account_id for _, account_id in over}))
        first_ids = await holder_store.find_first(connection, {new.holder_id for new, _ in over})
        names = {
            name_at_institution(keys[account_id], account_id, "refund", first_ids[new.holder_id], new.external_id): new
            for new, account_id in over
        }
        found = await return_store.find_made(connection, list(names), [new.holder_id for new in names.values()])
        return {names[name].refund_id: refund for name, refund in found.items()}

    async def find_forgotten_by_external_id(self, context: Context, caller: Caller, external_id: str) -> Refund | None:
        first_id, family = await holder_store.find_family(context.pool, caller.holder_id)
        for account_id, naming_key in (await return_store.read_keys_of_holders(context.pool, family)).items():
            name = name_at_institution(naming_key, account_id, "refund", first_id, external_id)
            if (made := (await return_store.find_made(context.pool, [name], family)).get(name)) is not None:
                return structs.replace(made, external_id=external_id)
        return None

    async def check_read(self, context: Context, caller: Caller) -> None:
        """Refuse as paused a refund of an unknown Pix, while an account was not read since the database was restored."""
        _, family = await holder_store.find_family(context.pool, caller.holder_id)
        for account_id in await return_store.read_keys_of_holders(context.pool, family):
            if await is_lost(context.port(INSTITUTIONS), account_id):
                raise await explain_pause(context.port(INSTITUTIONS), account_id)

    async def admit_renamed(self, context: Context, payer: OwnAccount, request: TransferRequest) -> None:
        """Raise ``OutcomeUnknown`` if an account may have paid the request under a name unknown to the payer's institution.

        These are other accounts of the payer's owner, and the payer's own if it was added after the loss. Called before
        anything is accepted.
        """
        if request.external_id is None or context.policy.is_sandbox:
            return
        lost_since = context.clock.now() - REPEATED_FOR
        for account_id in await holder_store.list_doubtful_accounts(context.pool, payer.holder_id, lost_since):
            await _check_read(context, account_id, request, lost_since)
            await InstitutionSource(account_id=account_id).admit_forgotten(context, request, _FOUND_OUT)


ACCOUNTS: Final = (InstitutionAccounts(),)
