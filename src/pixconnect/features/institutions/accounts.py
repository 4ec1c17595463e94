"""The accounts at institutions that a process has open, and such an account as the source of credits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol

from pixconnect.features.institutions.rules.account import ABILITIES, InstitutionAccount, abilities_of
from pixconnect.features.institutions.rules.institution import OpenAccount
from pixconnect.features.institutions.rules.rail_memory import RailMemory
from pixconnect.features.institutions.rules.unmatched import GiveBack, gives_back
from pixconnect.features.institutions.tables import pending_call as call_store
from pixconnect.features.institutions.tables import returns as return_store
from pixconnect.kernel.flows.context import Context, Port
from pixconnect.kernel.flows.credit import Credited, CreditSource
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.charge_contents import DayAmount
from pixconnect.kernel.rules.holder import find_holder_at
from pixconnect.kernel.rules.kept_report import Misfit
from pixconnect.kernel.rules.rail import Abilities, CreditReport, Rail
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import holder as holder_store
from pixconnect.kernel.writing.unit_of_work import UnitOfWork
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Pool

CallCounts = Counter[tuple[str, str]]  # of calls to institutions, by account and outcome
OpenRail = Callable[[OpenAccount, RailMemory], Rail]  # makes the rail that is an open account
_PAUSED_S: Final = 60  # when to come back while an account is paused


class Institutions(Protocol):
    """The accounts of the installation, as one process has them open."""

    async def list_all(self) -> Sequence[InstitutionAccount]:
        return ()

    async def find(self, account_id: int) -> OpenAccount | None:
        """An account over which money may leave; ``None`` if it is paused, closed or unknown."""
        return None

    async def find_receiving(self, account_id: int) -> OpenAccount | None:
        """An account at which charges are opened: an active one, or one paused by an operator or an alarm."""
        return None

    async def find_read(self, account_id: int) -> OpenAccount | None:
        """An account that is read: every one that is not closed."""
        return None


class NoInstitutions(Institutions):
    """Of an installation whose mode has none."""


INSTITUTIONS: Final = Port[Institutions]("accounts at institutions", NoInstitutions())
CALLS: Final = Port[CallCounts]("counts of calls to institutions", CallCounts())
OPEN_RAIL: Final = Port[OpenRail]("rail of accounts")
FACE_ANSWERS: Final = Port[Mapping[str, str]]("answers of faces", {})
"""The operator's answers where an institution's behaviour is undocumented, by face and choice."""
ACCOUNT: Final = Port[InstitutionAccount | None]("account", None)
"""The account at an institution whose rail the context has; ``None`` is the rail of the whole installation."""


async def is_lost(institutions: Institutions, account_id: int) -> bool:
    """Whether the database has forgotten something of an account, and no operator has said that it is in the books again."""
    return account_id in {account.id for account in await institutions.list_all() if account.lost_at is not None}


async def find_abilities(context: Context, account_id: int | None) -> Abilities:
    """The abilities of an account's rail, or of the installation's own."""
    if account_id is None:
        return context.policy.abilities
    found = next((account for account in await context.port(INSTITUTIONS).list_all() if account.id == account_id), None)
    return ABILITIES if found is None else abilities_of(found)


async def explain_pause(institutions: Institutions, account_id: int) -> errors.ServiceUnavailable:
    """Why no money leaves an account; after a loss it is unknown whether a repeated request was done before it."""
    why = "paused; nothing was done"
    may_be_done = await is_lost(institutions, account_id)
    if may_be_done:
        why = (
            "paused since the database was restored: this request may have been done before that. Repeat it later under the "
            "same external_id, and under no other"
        )
    message = f"the holder's account at its institution is {why}"
    return errors.ServiceUnavailable(message, retry_after_s=_PAUSED_S, may_be_done=may_be_done)


async def find_named_charge(pool: Pool, account_id: int, name: str) -> Charge | None:
    """The charge of the account with this txid or reference, if its holder lies on the account."""
    charge = await call_store.find_charge(pool, account_id, name)
    holder = None if charge is None else await holder_store.find(pool, charge.holder_id)
    return None if holder is None or holder.institution_id != account_id else charge


class AccountSource(CreditSource, frozen=True, kw_only=True):
    account: InstitutionAccount

    @classmethod
    def of(cls, account: InstitutionAccount) -> AccountSource:
        return cls(account=account, account_id=account.id, house_id=account.house_id, is_final=True)

    async def note_received(self, work: UnitOfWork, received: Transfer) -> None:
        # It goes back once a reading has shown that it was not returned yet (``service/returns.py``).
        if gives_back(self.account) and received.charge_id is None and received.settled_at is not None:
            noted = GiveBack(
                transfer_id=received.id,
                holder_id=received.holder_id,
                institution_id=self.account.id,
                state="waiting",
                due_at=work.now,
                created_at=work.now,
            )
            await return_store.GIVE_BACK.insert(work.connection, noted)

    async def find_credited(self, context: Context, report: CreditReport) -> Credited:
        """Whose it is, on this account: of holders that succeeded each other, the one that lies on it.

        It is the holder's whose charge it names; otherwise that one's who had its key when it settled; otherwise the account's
        house.
        """
        account, key = self.account, report.credit_party.key
        if report.txid is not None:
            charge = await find_named_charge(context.pool, account.id, report.txid)
            if charge is not None:
                return Credited(holder_id=charge.holder_id, charge_txid=charge.txid)
        # A text that the database cannot hold is no holder's key.
        if key is None or not key.isprintable():
            return Credited(holder_id=account.house_id, charge_txid=None)
        # Not from this process's cache: a list may contain long-settled payments.
        holdings = await holder_store.list_key_holdings(context.pool, key, account.id)
        settled_at = self.find_instant(report)
        member, is_doubtful = find_holder_at(holdings, settled_at)
        misfit = None
        if is_doubtful:
            names = sorted({f"holder {held.member_id}" for held in holdings if held.member_id is not None})
            misfit = Misfit(
                reason="two_holders",
                explanation=f"it settled at {settled_at.isoformat()}, when its key led to none of {', '.join(names)}; the "
                f"house of {account.name} has it",
            )
        return Credited(holder_id=account.house_id if member is None else member, charge_txid=None, misfit=misfit)

    async def plan_refund(self, context: Context) -> None:
        return None

    def find_instant(self, report: CreditReport) -> datetime:
        return report.settled_at or report.reported_at

    def find_parts(self, report: CreditReport, charge: Charge) -> DayAmount | None:
        return report.parts
