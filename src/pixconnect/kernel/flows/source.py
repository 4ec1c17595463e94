"""The location of a holder's money, and what depends on it: our own rail, or an account at an institution."""

import asyncio
from collections.abc import Collection, Coroutine, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final, Protocol

from msgspec import Struct

from pixconnect.kernel.feature import gather_one
from pixconnect.kernel.flows.context import Context, Operator
from pixconnect.kernel.flows.directory import OwnAccount
from pixconnect.kernel.flows.holder import NewHolder
from pixconnect.kernel.flows.lookup_budget import Lookup
from pixconnect.kernel.rules import ability
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import Charge, ChargeRequest
from pixconnect.kernel.rules.charge_payment import TXID_LENGTH_MIN
from pixconnect.kernel.rules.holder import Holder, Party, PixKey
from pixconnect.kernel.rules.rail import Abilities, DirectoryEntry, RailUnavailable
from pixconnect.kernel.rules.refund import NewRefund, Refund
from pixconnect.kernel.rules.transfer import Payee, SendingTerms, TransferRequest
from pixconnect.kernel.tables import charge as charge_store
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection, Pool
from pixconnect.platform.shared_look import answer_in_time

_HUNG_UP_WAIT_S: Final = 2.0  # how long the directory's answer is awaited after the caller has hung up


class Way(Struct, frozen=True, kw_only=True):
    payer: Party
    payee: Payee
    terms: SendingTerms
    account_id: int | None = None
    """The account that it leaves over; ``None`` is the installation's own rail, or by book."""
    br_code: str | None = None
    """The code that the account's institution reads for itself."""
    spends_lookup: bool = False
    """Whether a missing key costs the account a look-up at its institution; paying a key returns more than this."""


class Source(Struct, frozen=True, kw_only=True):
    """The installation's own rail. An account at an institution has its own method in place of each."""

    account_id: int | None  # the account; ``None`` of the installation's own rail
    sends_in_turn: bool = False  # whether one order waits for another to be sent
    may_name_payee_at_end: bool = False  # whether the payee of a transfer may be reported only with its end

    async def find_payee(
        self, context: Context, payer: OwnAccount, key: PixKey, end_to_end_id: str, lookup: Lookup
    ) -> Payee | None:
        """Find the payee of a key that no holder here has; ``None`` if a required system cannot be reached."""
        # A refusal here reveals that the key is not ours, as a miss in the directory does.
        lookup.found = "nobody"
        ability.check_resolves_keys(context.policy.abilities)
        lookup.found = None
        # The directory requires the asking holder and the transfer.
        try:
            async with context.lookups.directory_queries.hold(payer.holder_id):
                entry = await _ask_to_end(context.rail.lookup_key(key.key, payer.party.tax_id, end_to_end_id), lookup)
        except RailUnavailable:
            return None
        lookup.found = "somebody" if entry is not None else "nobody"
        if entry is None:
            raise errors.PixKeyNotFound("key: the directory knows no such Pix key")
        return Payee(party=entry.party, holder_id=None)

    async def choose_way(
        self, context: Context, payer: OwnAccount, request: TransferRequest, payee: Payee, terms: SendingTerms
    ) -> Way:
        """Choose how a transfer to a payee outside leaves: its terms, and the key that pays.

        Raises:
            RuleBroken: The payee is the payer, or cannot be compared with the owner that the caller names.
            ServiceUnavailable: Nothing can be sent now; nothing was done.
            OutcomeUnknown: The database was restored, and the request may have been paid before.
        """
        return Way(payer=payer.party, payee=payee, terms=terms)

    async def admit_forgotten(self, context: Context, request: TransferRequest) -> None:
        """Raise ``OutcomeUnknown`` if a refused request may have been paid before the database was restored.

        Over the own rail none may: it uses our own names.
        """

    def find_abilities(self, context: Context) -> Abilities:
        return context.policy.abilities

    async def check_sends(self, context: Context) -> None:
        """Raise ``ServiceUnavailable`` while orders are not handed over.

        Over the own rail never: an order that it does not accept is given up in time.
        """

    async def find_named_charge(self, pool: Pool, owner: int | None, name: str) -> Charge | None:
        """Find the charge that a payment names by its txid, over a rail or by book; ``owner`` has the paid key."""
        # A shorter name is the reference of a static code, and no charge here has one.
        if owner is None or len(name) < TXID_LENGTH_MIN:
            return None
        charge = await charge_store.find_by_txid(pool, owner, name)
        # A charge of the owner's predecessor or successor is paid on that holder's account.
        return charge if charge is not None and charge.holder_id == owner else None


class Accounts:
    """What a feature adds where money of holders lies on accounts at institutions. The kernel alone knows of none."""

    async def find_states(self, context: Context) -> Collection[str]:
        return ()

    def find_source(self, account_id: int) -> Source:
        raise errors.InternalError(f"no feature moves money over the account {account_id}")

    async def create_holder(self, context: Operator, new: NewHolder, name: str) -> Holder:
        """Open a holder on the account of this name; errors as in ``flows.holder.create_holder``, and ``BadRequest``."""
        raise errors.BadRequest(f"institution: there is no account {name}: no feature moves money over one")

    async def move_holder(self, context: Operator, holder_id: int, name: str) -> None:
        """Move a holder without any activity to the account of this name.

        Raises:
            BadRequest: It has had money, payments or charges, or is of another owner.
            NotFound: The holder or account does not exist.
        """
        raise errors.BadRequest(f"institution: there is no account {name}: no feature moves money over one")

    async def create_charge(
        self, context: Context, caller: Caller, account_id: int, request: ChargeRequest, key: str
    ) -> Charge:
        """Create the charge of a checked request at the account's institution; ``key`` is normalised."""
        raise errors.InternalError(f"no feature opens charges at the account {account_id}")

    async def admit_renamed(self, context: Context, payer: OwnAccount, request: TransferRequest) -> None:
        """Raise ``OutcomeUnknown`` if another account may have paid the request under a name that is unknown now."""

    async def find_forgotten(self, connection: Connection, batch: Sequence[NewRefund]) -> dict[int, Refund]:
        """The refunds that the same requests made before the database was restored, by the ids of the new ones."""
        return {}

    async def find_forgotten_by_external_id(self, context: Context, caller: Caller, external_id: str) -> Refund | None:
        """Such a refund by its name."""

    async def check_read(self, context: Context, caller: Caller) -> None:
        """Raise ``ServiceUnavailable`` while an account of the caller's was not read since the database was restored."""


@cache
def find_accounts() -> Accounts:
    return gather_one("accounts", Accounts)


OWN_RAIL: Final = Source(account_id=None)


class Placed(Protocol):
    """A holder's account, or a transfer or order of it."""

    @property
    def institution_id(self) -> int | None: ...


def source_of(placed: Placed | None) -> Source:
    """Return the source of a holder's account, transfer or order; of an unknown one our own rail."""
    if placed is None or placed.institution_id is None:
        return OWN_RAIL
    return find_accounts().find_source(placed.institution_id)


async def _ask_to_end(asking: Coroutine[Any, Any, DirectoryEntry | None], lookup: Lookup) -> DirectoryEntry | None:
    """Ask the directory; if the caller hangs up meanwhile, the answer still decides what the look-up costs."""
    task = asyncio.create_task(asking)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        lookup.found = "nobody"
        with suppress(TimeoutError, RailUnavailable):
            lookup.found = "nobody" if await answer_in_time(task, _HUNG_UP_WAIT_S) is None else "somebody"
        raise
