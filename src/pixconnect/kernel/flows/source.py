"""The location of a holder's money, and what depends on it: our own rail, or an account at an institution."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Protocol

from msgspec import Struct

from pixconnect.kernel.feature import gather_one
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.directory import OwnAccount
from pixconnect.kernel.flows.lookup_budget import Lookup
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import Charge, ChargeRequest
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY, Party, PixKey
from pixconnect.kernel.rules.rail import Abilities
from pixconnect.kernel.rules.refund import NewRefund, Refund
from pixconnect.kernel.rules.transfer import Payee, SendingTerms, TransferRequest
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection, Pool


class Way(Struct, frozen=True, kw_only=True):
    """How a transfer leaves."""

    payer: Party
    payee: Payee
    terms: SendingTerms
    account_id: int | None = None
    """The account that it leaves over; ``None`` is the installation's own rail, or by book."""
    br_code: str | None = None
    """The code that the account's institution reads for itself."""
    spends_lookup: bool = False
    """Whether a missing key costs the account a look-up at its institution; paying a key returns more than this."""


class Source(Protocol):
    @property
    def account_id(self) -> int | None:
        """The account; ``None`` of the installation's own rail."""
        ...

    @property
    def sends_in_turn(self) -> bool:
        """Whether one order waits for another to be sent."""
        ...

    @property
    def may_name_payee_at_end(self) -> bool:
        """Whether the payee of a transfer may be reported only with its end."""
        ...

    async def find_payee(
        self, context: Context, payer: OwnAccount, key: PixKey, end_to_end_id: str, lookup: Lookup
    ) -> Payee | None:
        """Find the payee of a key that no holder here has; ``None`` if a required system cannot be reached."""
        ...

    async def choose_way(
        self, context: Context, payer: OwnAccount, request: TransferRequest, payee: Payee, terms: SendingTerms
    ) -> Way:
        """Choose how a transfer to a payee outside leaves: its terms, and the key that pays.

        Raises:
            RuleBroken: The payee is the payer, or cannot be compared with the owner that the caller names.
            ServiceUnavailable: Nothing can be sent now; nothing was done.
            OutcomeUnknown: The database was restored, and the request may have been paid before.
        """
        ...

    async def admit_forgotten(self, context: Context, request: TransferRequest) -> None:
        """Raise ``OutcomeUnknown`` if a refused request may have been paid before the database was restored."""
        ...

    def find_abilities(self, context: Context) -> Abilities: ...

    async def check_sends(self, context: Context) -> None:
        """Raise ``ServiceUnavailable`` while orders are not handed over."""
        ...

    async def find_named_charge(self, pool: Pool, owner: int | None, name: str) -> Charge | None:
        """Find the charge that a payment names by its txid, over a rail or by book.

        Args:
            pool: The database.
            owner: The holder of the paid key.
            name: The payment's txid.
        """
        ...

    async def create_charge(
        self, context: Context, caller: Caller, account: OwnAccount, request: ChargeRequest, key: str
    ) -> Charge:
        """Create the charge of a checked request; ``key`` is normalised."""
        ...


def is_key_alone(payee: Payee) -> bool:
    return payee.holder_id is None and payee.party.tax_id == UNKNOWN_PARTY.tax_id


class Accounts:
    """What a feature adds where money of holders lies on accounts at institutions. The kernel alone knows of none."""

    def find_source(self, account_id: int) -> Source:
        raise errors.InternalError(f"no feature moves money over the account {account_id}")

    async def admit_renamed(self, context: Context, payer: OwnAccount, request: TransferRequest) -> None:
        """Raise ``OutcomeUnknown`` if another account may have paid the request under a name that is unknown now."""

    async def find_forgotten(self, connection: Connection, batch: Sequence[NewRefund]) -> dict[int, Refund]:
        """The refunds that the same requests made before the database was restored, by the ids of the new ones."""
        del connection, batch
        return {}

    async def find_forgotten_by_external_id(self, context: Context, caller: Caller, external_id: str) -> Refund | None:
        """Such a refund by its name."""
        del context, caller, external_id

    async def check_read(self, context: Context, caller: Caller) -> None:
        """Raise ``ServiceUnavailable`` while an account of the caller's was not read since the database was restored."""


@cache
def find_accounts() -> Accounts:
    return gather_one("accounts", Accounts)
