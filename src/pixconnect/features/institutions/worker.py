"""The worker's tasks for accounts at institutions: read, continue charges, expire charges, move orders, watch balances.

Each account has its own tasks, in the worker that has its slot: an account that hangs, refuses or meets a defect delays no
other, and a long list delays no order and no charge. No money leaves a paused account: it is read, its charges are opened, and
sent orders are queried. An account paused by a loss of the database is only read.

A balance for metrics is read only while orders are queued, at most once a minute, and discarded when none are. Each account's
balance is compared with the books every ten minutes (``features/institutions/service/comparison.py``).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, cast, get_args

import structlog
from msgspec import Struct

from pixconnect.doors.worker.leases import LeaseLost, SlotLeases, TimedMember
from pixconnect.doors.worker.parts import Gauge, MemberRow
from pixconnect.features.institutions.accounts import INSTITUTIONS, OPEN_RAIL, OpenRail
from pixconnect.features.institutions.orders import AccountFence, StoredRailMemory
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.institution import InstitutionUnavailable, OpenAccount
from pixconnect.features.institutions.rules.sweep import APART_S, Pace
from pixconnect.features.institutions.service.charge_change import CHANGE_CALLS
from pixconnect.features.institutions.service.charge_opening import OPENING_CALLS
from pixconnect.features.institutions.service.comparison import BalanceComparisons
from pixconnect.features.institutions.service.open_accounts import at_account
from pixconnect.features.institutions.service.pending_call import go_on
from pixconnect.features.institutions.service.returns import follow_sent_returns, give_back_due
from pixconnect.features.institutions.service.statement import settle_waiting
from pixconnect.features.institutions.service.statement_sweep import read_day_files, sweep_statement
from pixconnect.features.institutions.service.sweep import expire_account_charges, sweep_due
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.institutions.tables import alarm as figures_store
from pixconnect.kernel.feature import gather
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.handover import ask_about_handed_orders, give_up_unsent, process_due_orders
from pixconnect.kernel.flows.settlement import Fence
from pixconnect.kernel.rules.event import SLOTS_COUNT
from pixconnect.kernel.rules.rail import RailUnavailable
from pixconnect.platform.base import errors
from pixconnect.platform.base.entropy import SealBroken
from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.notifier import CALLBACK_CHANNEL
from pixconnect.platform.shared_look import wait_for

READ_EVERY_S: Final = 60.0
SETTLE_EVERY_S: Final = 300.0
SETTLE_DEEP_EVERY_S: Final = 86_400.0  # lines that have waited for weeks are compared with all records of these weeks
LOOK_EVERY_S: Final = 1.0
AWAY_S: Final = (2.0, 5.0, 15.0, 30.0, 60.0)  # the backoff while an institution gives no answer; the last one repeats
ORDERS_MAX: Final = 16  # orders moved at once over one account: they are sent concurrently

LookAfter = Callable[[Context, OpenAccount, Fence, Collection[Pace]], Awaitable[None]]
"""The last argument has the paces to read because the institution called."""


class AccountTask(Struct, frozen=True, kw_only=True):
    """A feature's task for each account that may receive."""

    do: LookAfter
    is_reading: bool = False  # also for accounts that are only read, and sooner after a call from the institution


_AWAY = (*DATABASE_FAILED, errors.PixConnectError, RailUnavailable, LeaseLost)
_log = structlog.get_logger(__name__)


class AccountBalances:
    def __init__(self) -> None:
        self.cents: dict[str, int] = {}  # by the account's name
        self._next_s: dict[int, float] = {}

    def drop_others(self, names: Collection[str]) -> None:
        for name in self.cents.keys() - set(names):
            del self.cents[name]

    async def watch(self, context: Context, opened: OpenAccount, fence: Fence, called: Collection[Pace]) -> None:
        """Read an account's balance if that is due; if its institution is away, the last one is dropped."""
        account, institution = opened.account, opened.institution
        now_s = context.clock.monotonic_s()
        if not institution.traits.has_balance or now_s < self._next_s.get(account.id, now_s):
            return
        # Before the answer: a failed call is not repeated at once either.
        self._next_s[account.id] = now_s + READ_EVERY_S
        if not await figures_store.is_queued(context.pool, account.id):
            self.cents.pop(account.name, None)
            return
        try:
            self.cents[account.name] = await institution.read_balance()
        # An old balance would pass for a present one, and an alert would compare with it: none is reported instead.
        except InstitutionUnavailable:
            self.cents.pop(account.name, None)
            raise


class LineSettling:
    """Settles lines of statements at its own interval: most institutions have no statement whose reading would do it."""

    def __init__(self) -> None:
        self._next_s: dict[int, float] = {}
        self._next_deep_s: dict[int, float] = {}

    async def settle(self, context: Context, opened: OpenAccount, fence: Fence, called: Collection[Pace]) -> None:
        now_s, account = context.clock.monotonic_s(), opened.account
        if now_s < self._next_s.get(account.id, now_s):
            return
        self._next_s[account.id] = now_s + SETTLE_EVERY_S
        is_deep = now_s >= self._next_deep_s.get(account.id, now_s)
        if is_deep:
            self._next_deep_s[account.id] = now_s + SETTLE_DEEP_EVERY_S
        await settle_waiting(context, account, is_deep=is_deep)


class CallbackNews:
    """Pauses an account's reader until its institution calls, and limits reading for calls to once in ``APART_S``."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._reported: defaultdict[int, set[Pace]] = defaultdict(set)
        self._woken: defaultdict[int, asyncio.Event] = defaultdict(asyncio.Event)
        self._next_s: dict[int, float] = {}

    def receive(self, _connection: object, _process_id: int, _channel: str, payload: object) -> None:
        """Receive a notification of ``features.institutions.service.webhook``."""
        # A process of a later version may send paces unknown to this one: these are skipped.
        account_id, *paces = str(payload).split()
        self.note_call(int(account_id), [cast("Pace", pace) for pace in paces if pace in get_args(Pace)])

    def note_call(self, account_id: int, paces: Collection[Pace]) -> None:
        if paces:
            self._reported[account_id].update(paces)
            self._woken[account_id].set()

    def take(self, account_id: int) -> frozenset[Pace]:
        """Return the paces to read now because its institution called; a failed reader restores them."""
        now_s = self._monotonic_s()
        if not self._reported[account_id] or now_s < self._next_s.get(account_id, 0.0):
            return frozenset()
        self._next_s[account_id] = now_s + APART_S
        self._woken[account_id].clear()
        return frozenset(self._reported.pop(account_id))

    async def rest(self, account_id: int, longest_s: float) -> None:
        """Wait until an institution has called about a readable account, at most this long."""
        # If it calls too soon after the last reading, the call waits for that long, and is not lost.
        early_s = self._next_s.get(account_id, 0.0) - self._monotonic_s()
        if early_s > 0:
            await asyncio.sleep(min(early_s, longest_s))
            longest_s -= early_s
        if longest_s > 0:
            await wait_for(self._woken[account_id], longest_s)


class AccountReaders(TimedMember):
    """Tasks for each account whose slot this worker has: reading, orders, charges."""

    due_if = account_store.IS_ANY

    def __init__(self, context: Context, leases: SlotLeases, open_rail: OpenRail) -> None:
        super().__init__()
        self._context = context
        self._leases = leases
        self._open_rail = open_rail
        self.balances = AccountBalances()
        self._comparisons = BalanceComparisons()
        self._settling = LineSettling()
        self._has_warned = False
        leases.add(self)
        self._tasks: dict[tuple[int, LookAfter], asyncio.Task[None]] = {}
        tasks = gather("account_tasks", AccountTask)
        self._read = [look_after, read_own_statement, *(each.do for each in tasks if each.is_reading), read_sent_returns]
        self._receive = [go_on_with_charges, *(each.do for each in tasks if not each.is_reading)]
        # Each reads for a call by itself: taking a call leaves it to the others.
        self._news: Mapping[LookAfter, CallbackNews] = {
            do: CallbackNews(context.clock.monotonic_s) for do in self._read if do is not read_own_statement
        }
        for news in self._news.values():
            leases.listen(CALLBACK_CHANNEL, news.receive)

    async def run(self) -> None:
        try:
            while True:
                self.is_due.clear()
                try:
                    await self._look()
                except _AWAY as error:
                    _log.warning("accounts wait", reason=type(error).__name__)
                await self.rest(self.is_due, LOOK_EVERY_S, has_found=bool(self._tasks))
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _look(self) -> None:
        there = await self._context.port(INSTITUTIONS).list_all()
        if not there and not self._context.policy.has_rail and not self._has_warned:
            self._has_warned = True
            _log.warning("no account at an institution: no money moves until one is added by `pixconnect institution add`")
        accounts = [account for account in there if account.id % SLOTS_COUNT in self._leases.held]
        ours = {(account.id, do) for account in accounts for do in self._choose_work(account)}
        for name in self._tasks.keys() - ours:
            self._tasks.pop(name).cancel()
        for account_id, do in ours:
            task = self._tasks.get((account_id, do))
            if task is None or task.done():
                name = f"account {account_id}: {do.__name__}"
                self._tasks[account_id, do] = asyncio.create_task(self._keep(account_id, do), name=name)
        # A worker without the slot reports nothing about the account.
        self.balances.drop_others({account.name for account in accounts if account.state == "active"})
        for account in accounts:
            if account.state != "active":
                context = at_account(self._context, account, self._context.rail)
                await give_up_unsent(context, account.id, context.clock.now(), ORDERS_MAX)

    def _choose_work(self, account: InstitutionAccount) -> list[LookAfter]:
        work = list[LookAfter]()
        if account.is_read:
            work += *self._read, self._settling.settle
        if account.may_receive:
            work += *self._receive, self._comparisons.compare
            work.append(move_orders if account.state == "active" else ask_about_orders)
        # Orders that may not leave need no balance.
        return [*work, self.balances.watch] if account.state == "active" else work

    async def _keep(self, account_id: int, do: LookAfter) -> None:
        institutions = self._context.port(INSTITUTIONS)
        find = institutions.find if do is move_orders else institutions.find_read
        failed_count, context, known = 0, self._context, None
        news = self._news.get(do)
        fence = AccountFence(self._leases, account_id % SLOTS_COUNT)
        while True:
            try:
                # The sending task ends with the account's pause, also before the next check.
                opened = await find(account_id)
            except (*DATABASE_FAILED, errors.PixConnectError, SealBroken) as error:
                # The health check reports that it is not read. The reason names a file or a member, and contains no secrets.
                _log.warning("an account cannot be opened", account_id=account_id, reason=str(error) or type(error).__name__)
                await asyncio.sleep(AWAY_S[0 if isinstance(error, DATABASE_FAILED) else -1])
                continue
            if opened is None:
                return
            called = frozenset[Pace]() if news is None else news.take(account_id)
            try:
                if opened is not known:
                    context, known = await self._begin(opened, fence), opened
                await do(context, opened, fence, called)
                failed_count, called = 0, frozenset[Pace]()
            except InstitutionUnavailable as error:
                failed_count += 1
                _log.warning("an institution gave no answer", institution=opened.account.name, reason=error.reason)
            except _AWAY as error:
                failed_count += 1
                _log.warning("an account waits", institution=opened.account.name, reason=type(error).__name__)
            except Exception as error:  # noqa: BLE001  a defect that one account meets must not stop the others
                failed_count += 1
                _log.exception("an account met a defect", institution=opened.account.name, reason=type(error).__name__)
            if news is not None:
                news.note_call(account_id, called)
            if failed_count or news is None:
                await asyncio.sleep(AWAY_S[min(failed_count, len(AWAY_S)) - 1] if failed_count else LOOK_EVERY_S)
            else:
                await news.rest(account_id, LOOK_EVERY_S)

    async def _begin(self, opened: OpenAccount, fence: AccountFence) -> Context:
        memory = StoredRailMemory(self._context.pool, fence, self._context.clock, opened)
        await account_store.note_certificates(self._context.pool, opened.account.id, opened.institution.traits.certificates)
        return at_account(self._context, opened.account, self._open_rail(opened, memory))


async def look_after(context: Context, opened: OpenAccount, fence: Fence, called: Collection[Pace]) -> None:
    """Do an account's due work once; if its institution is away, facts recorded until then stay."""
    await sweep_due(context, opened.institution, called)
    await expire_account_charges(context, opened.institution)


async def read_own_statement(context: Context, opened: OpenAccount, fence: Fence, called: Collection[Pace]) -> None:
    """Read the due part of the account's own statement; if that never works, payments are read all the same."""
    files = opened.institution.day_files
    if files is None:
        await sweep_statement(context, opened.account, opened.institution)
    else:
        await read_day_files(context, opened.account, files)


async def read_sent_returns(context: Context, opened: OpenAccount, fence: Fence, called: Collection[Pace]) -> None:
    """Read payees' returns; if the credential may not list these, payments are read all the same."""
    await follow_sent_returns(context, opened, is_called="deep" in called)


async def move_orders(context: Context, opened: OpenAccount, fence: Fence, called: Collection[Pace]) -> None:
    """Begin automatic returns, hand over due orders of an account, and query silent ones."""
    await give_back_due(context, opened)
    until = context.clock.now()
    while await process_due_orders(context, fence, opened.account.id, until, ORDERS_MAX) == ORDERS_MAX:
        pass


async def go_on_with_charges(context: Context, opened: OpenAccount, fence: Fence, called: Collection[Pace]) -> None:
    await go_on(context, opened, OPENING_CALLS)
    await go_on(context, opened, CHANGE_CALLS)


async def ask_about_orders(context: Context, opened: OpenAccount, fence: Fence, called: Collection[Pace]) -> None:
    """Query orders handed over before the account was paused."""
    until = context.clock.now()
    while await ask_about_handed_orders(context, fence, opened.account.id, until, ORDERS_MAX) == ORDERS_MAX:
        pass


# fmt: off
_BALANCE: Final = Gauge[AccountReaders]("pixconnect_institution_balance_cents", ("institution",),
    "An institution's last reported balance of an account, while orders wait to leave it; only of institutions "
        "with a balance, and read at most once a minute.",
    lambda readers: dict(readers.balances.cents))
# fmt: on
MEMBERS: Final = (
    MemberRow(
        name="accounts",
        make=lambda parts, leases: AccountReaders(parts.context, leases, parts.context.port(OPEN_RAIL)),
        gauges=(_BALANCE,),
    ),
)
