"""The installation's own rail as the source of transfers, refunds and charges."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from msgspec import Struct

from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.directory import OwnAccount
from pixconnect.kernel.flows.idempotency import Idempotency
from pixconnect.kernel.flows.lookup_budget import Lookup
from pixconnect.kernel.flows.source import Way
from pixconnect.kernel.rules import ability, br_code, identifiers
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import Charge, ChargeRequest, NewCharge, announce_charge, open_charge
from pixconnect.kernel.rules.charge_payment import TXID_LENGTH_MIN
from pixconnect.kernel.rules.fingerprint import fingerprint
from pixconnect.kernel.rules.holder import PixKey
from pixconnect.kernel.rules.rail import Abilities, RailUnavailable
from pixconnect.kernel.rules.transfer import Payee, SendingTerms, TransferRequest
from pixconnect.kernel.tables import charge as charge_store
from pixconnect.kernel.tables.charge import CHARGES
from pixconnect.kernel.tables.origin import ORIGINS, Asked
from pixconnect.kernel.writing.batch import Batch, WriteOperation
from pixconnect.kernel.writing.unit_of_work import begin_work
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Pool

CHARGE_IDEMPOTENCY: Final = Idempotency("charge", charge_store.find_by_external_id, charge_store.find_external)


class RailSource(Struct, frozen=True):
    account_id = None
    sends_in_turn = False
    may_name_payee_at_end = False

    async def find_payee(
        self, context: Context, payer: OwnAccount, key: PixKey, end_to_end_id: str, lookup: Lookup
    ) -> Payee | None:
        # A refusal here reveals that the key is not ours, as a miss in the directory does.
        lookup.found = "nobody"
        ability.check_resolves_keys(context.policy.abilities)
        lookup.found = None
        # The directory requires the asking holder and the transfer.
        try:
            async with context.lookups.asking_directory(payer.holder_id):
                entry = await context.rail.lookup_key(key.key, payer.party.tax_id, end_to_end_id)
        except RailUnavailable:
            return None
        lookup.found = "somebody" if entry is not None else "nobody"
        if entry is None:
            raise errors.PixKeyNotFound("key: the directory knows no such Pix key")
        return Payee(party=entry.party, holder_id=None)

    async def choose_way(
        self, context: Context, payer: OwnAccount, request: TransferRequest, payee: Payee, terms: SendingTerms
    ) -> Way:
        del context, request
        return Way(payer=payer.party, payee=payee, terms=terms)

    async def admit_forgotten(self, context: Context, request: TransferRequest) -> None:
        """Do nothing: the rail uses our own names."""

    def find_abilities(self, context: Context) -> Abilities:
        return context.policy.abilities

    async def check_sends(self, context: Context) -> None:
        """Do nothing: an order that the rail does not accept is given up in time."""

    async def find_named_charge(self, pool: Pool, owner: int | None, name: str) -> Charge | None:
        # A shorter name is the reference of a static code, and no charge here has one.
        if owner is None or len(name) < TXID_LENGTH_MIN:
            return None
        charge = await charge_store.find_by_txid(pool, owner, name)
        # A charge of the owner's predecessor or successor is paid on that holder's account.
        return charge if charge is not None and charge.holder_id == owner else None

    async def create_charge(
        self, context: Context, caller: Caller, account: OwnAccount, request: ChargeRequest, key: str
    ) -> Charge:
        # All ids are generated before the first try, so that a batch whose commit was lost finds its own rows.
        txid = identifiers.make_txid(context.clock.now(), context.entropy)
        location = context.policy.location_prefix + txid
        new = NewCharge(
            holder_id=caller.holder_id,
            caller=caller,
            external_id=request.external_id or context.entropy.uuid7(),
            fingerprint=fingerprint(request),
            request=request,
            charge_id=await context.ids.charge_id(),
            txid=txid,
            key=key,
            br_code=br_code.format_dynamic_br_code(location, account.party.name, account.city),
            lifetime=timedelta(seconds=context.policy.charge_lifetime_s),
            may_exist=request.external_id is not None,
        )
        return await context.writes.submit(CREATE_CHARGES, new)


async def _create_charges(batch: Batch[NewCharge]) -> list[Charge | errors.PixConnectError]:
    # A charge moves no money, so no balance is locked: charges of one holder never wait for its transfers.
    work = await begin_work(batch)
    known = await CHARGE_IDEMPOTENCY.find_known(batch.connection, batch)

    def create(new: NewCharge) -> Charge:
        charge = open_charge(new, work.now)
        work.put(CHARGES, charge)
        work.put(ORIGINS, Asked("charge", charge.id, work.now, new.caller))
        work.announce(announce_charge, charge, "qrcode.pending")
        return charge

    outcomes = CHARGE_IDEMPOTENCY.decide_each(batch, known, create)
    await work.write()
    return outcomes


CREATE_CHARGES: Final = WriteOperation("create_charges", _create_charges, external_id_of=lambda new: new.external_id)
OWN_RAIL: Final = RailSource()
