"""The records that use cases take (the database, the ports, the operator's rules), and writes outside of batches.

A use case takes ``Context``. It takes ``Core`` if operators' verbs also call it, and ``Writer`` if those that write money do.
The command line and the preparation of the sandbox open an ``Operator``. No ``Context`` is one: it connects as the service,
whose role may not do what operators do.

``FailedReports`` counts how often the recording of a report has failed in this process. Forgetting one costs only time: a
report that is not acknowledged comes again.

``UnderWay`` caches the transfers and refunds that this process has handed to the rail. While an order is open its transfer or
refund does not change, except for its id on the network, which the order has too. So we need not read it again when it ends. On
a miss (another worker handed it over, or too many are under way) we read it from the database.

A batch finds out what a lost COMMIT did by running again with the same ids. The rare writes here have no such ids: if a COMMIT
was lost, or a step failed after an earlier one had committed, the answer is ``OUTCOME_UNKNOWN``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final, Protocol

import asyncpg
import structlog
from msgspec import Struct, field
from msgspec.structs import replace

from pixconnect.features.identity.rules import Signer
from pixconnect.features.institutions.rules.account import ABILITIES, InstitutionAccount, abilities_of
from pixconnect.features.institutions.rules.institution import OpenAccount
from pixconnect.features.sandbox import rules as sandbox_control
from pixconnect.features.sandbox.rules import Message, SandboxControl, SandboxUnavailable
from pixconnect.features.traces import tables as trace_store
from pixconnect.features.traces.tables import TracedOrder
from pixconnect.features.webhooks.rules.delivery import Receivers
from pixconnect.kernel.flows.directory import HolderDirectory
from pixconnect.kernel.flows.lookup_budget import LookupBudgets
from pixconnect.kernel.flows.server_watch import ServerWatch
from pixconnect.kernel.register.register import ARRANGEMENT
from pixconnect.kernel.rules import identifiers
from pixconnect.kernel.rules.location import Locations
from pixconnect.kernel.rules.order import name_of
from pixconnect.kernel.rules.rail import Abilities, Rail
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import refund as refund_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.tables.identifiers import IdBlocks
from pixconnect.kernel.writing.write_queues import WriteQueues
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import Clock
from pixconnect.platform.base.entropy import Entropy, SecretBox
from pixconnect.platform.bounded_cache import BoundedCache
from pixconnect.platform.database_failure import DATABASE_AWAY, DATABASE_BUSY
from pixconnect.platform.notifier import WakeWorkers
from pixconnect.platform.pool import Connection, Pool

_PAUSED_S: Final = 60
"""When to come back while an account is paused."""


class Institutions(Protocol):
    """The accounts of the installation, as one process has them open."""

    async def list_all(self) -> Sequence[InstitutionAccount]: ...

    async def list_active(self) -> Sequence[InstitutionAccount]: ...

    async def find(self, account_id: int) -> OpenAccount | None:
        """An account over which money may leave; ``None`` if it is paused, closed or unknown."""
        ...

    async def find_receiving(self, account_id: int) -> OpenAccount | None:
        """An account at which charges are opened: an active one, or one paused by an operator or an alarm."""
        ...

    async def find_read(self, account_id: int) -> OpenAccount | None:
        """An account that is read: every one that is not closed."""
        ...


class NoInstitutions:
    """Of an installation whose mode has none."""

    async def list_all(self) -> Sequence[InstitutionAccount]:
        return ()

    async def list_active(self) -> Sequence[InstitutionAccount]:
        return ()

    async def find(self, account_id: int) -> OpenAccount | None:
        return None

    find_receiving = find_read = find


async def is_lost(institutions: Institutions, account_id: int) -> bool:
    """Whether the database has forgotten something of an account, and no operator has said that it is in the books again."""
    return account_id in {account.id for account in await institutions.list_all() if account.lost_at is not None}


async def find_abilities(context: Context, account_id: int | None) -> Abilities:
    """The abilities of an account's rail, or of the installation's own."""
    if account_id is None:
        return context.policy.abilities
    found = next((account for account in await context.institutions.list_all() if account.id == account_id), None)
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


REMEMBERED_MAX: Final = 4096
"""About 8 MiB; the one that was handed over first is forgotten first."""


class UnderWay:
    def __init__(self, remembered_max: int = REMEMBERED_MAX) -> None:
        self._by_name = BoundedCache[str, Transfer | Refund](remembered_max)

    def remember(self, handed: Iterable[Transfer | Refund]) -> None:
        for ordered in handed:
            self._by_name.keep(name_of(ordered), ordered)

    def recall(self, names: Sequence[str]) -> dict[str, Transfer | Refund]:
        return {name: self._by_name[name] for name in names if name in self._by_name}

    def forget(self, name: str) -> None:
        self._by_name.pop(name, None)

    def forget_all(self) -> None:
        self._by_name.clear()


async def read_ordered(pool: Connection | Pool, names: Sequence[str]) -> dict[str, Transfer | Refund]:
    """Our own outgoing transfers and refunds of these names, as the database has them; other names are skipped."""
    transfers = [name for name in names if identifiers.names_a_transfer(name)]
    refunds = [name for name in names if not identifiers.names_a_transfer(name)]
    found: dict[str, Transfer | Refund] = {}
    if transfers:
        found |= await transfer_store.find_named(pool, transfers, "OUT")
    if refunds:
        found |= await refund_store.find_named(pool, refunds, "OUT")
    return found


_REMEMBERED_MAX: Final = 8192
LOOK_UP_TIMEOUT_S: Final = 1.0
"""A busy database answers due work first."""

_log = structlog.get_logger(__name__)


class OrderTraces:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._by_name = BoundedCache[str, TracedOrder | None](_REMEMBERED_MAX)

    async def look_up(self, names: Sequence[str]) -> None:
        """Find the traces of orders, before they are marked; after any error, the orders continue without them."""
        unknown = [name for name in names if name not in self._by_name]
        if not unknown:
            return
        try:
            async with asyncio.timeout(LOOK_UP_TIMEOUT_S):
                found = await trace_store.find_of_orders(self._pool, unknown)
        except Exception as error:  # noqa: BLE001  no trace is worth an order that waits
            _log.warning("orders go on without their traces", reason=type(error).__name__)
            return
        for name in unknown:
            self._by_name.keep(name, found.get(name))

    def recall(self, name: str) -> TracedOrder | None:
        """An order's trace; ``None`` if it has none, or it is unknown."""
        return self._by_name.get(name)


class Policy(Struct, frozen=True, kw_only=True):
    """Periods have one value in every installation, and tests give others."""

    ispb: str
    institution_name: str
    location_prefix: str
    """Where QR code payloads are served: host and path up to the txid, without a scheme."""
    location_key_set_url: str
    auth_url: str
    faces_url: str = ""
    """Faces are below it, each under its name."""
    callback_base_url: str = ""
    """Where institutions reach the API."""
    is_sandbox: bool
    has_rail: bool = True
    """Without one, no order is ever marked as handed over."""
    abilities: Abilities = Abilities()
    """The rail's."""
    account: InstitutionAccount | None = None
    """The account at an institution whose rail it is; ``None`` is the rail of the whole installation."""
    charge_lifetime_s: int = ARRANGEMENT.find_constant("charge_lifetime").read_value()
    """How long a charge can be paid that names no lifetime."""
    handover_timeout_s: int = 60
    """The worker gives up a transfer or refund that was not handed to the rail by then: its money is available again."""
    token_lifetime_s: int = 300
    webhook_pending_max: int = 100_000
    """Deliveries that may wait for one endpoint when events are replayed to it: a day of an event a second."""
    face_answers: Mapping[str, str] = {}
    """The chosen answers where an institution's answer is undocumented, by the face's name and the choice's."""


TRIES_MIN: Final = 3
LASTING_MIN_S: Final = 10.0
"""Both must be reached: three tries alone pass in a moment, and the scheme waits 40 s for an answer."""
OVERTAKEN_MIN_S: Final = 300.0
"""How long a later fact is waited for; if it is missing by then, it never existed here."""
FAILURES_REMEMBERED_MAX: Final = 4096
"""The one that has not failed for longest is forgotten first."""


class FailedReports:
    def __init__(self, lasting_min_s: float = LASTING_MIN_S, overtaken_min_s: float = OVERTAKEN_MIN_S) -> None:
        self._lasting_min_s = lasting_min_s
        self._overtaken_min_s = overtaken_min_s
        self._failures = BoundedCache[str, tuple[int, float]](FAILURES_REMEMBERED_MAX)

    def is_enough(self, name: str, now_s: float) -> bool:
        """Count a failure; answers whether this report has failed often and long enough."""
        return self._count(name, now_s, self._lasting_min_s)

    def is_about_nothing(self, name: str, now_s: float) -> bool:
        """Count that what this report is about is not known; answers whether it was waited for long enough."""
        # Under a separate name: waiting for it is no failure to record it.
        return self._count(f"about {name}", now_s, self._overtaken_min_s)

    def _count(self, name: str, now_s: float, lasting_min_s: float) -> bool:
        count, first_s = self._failures.get(name, (0, now_s))
        self._failures.keep(name, (count + 1, first_s))
        return count + 1 >= TRIES_MIN and now_s - first_s >= lasting_min_s

    def forget_all(self) -> None:
        self._failures.clear()


class Core(Struct, frozen=True, kw_only=True):
    """Common to the service and to operators' verbs."""

    pool: Pool
    clock: Clock
    entropy: Entropy
    policy: Policy
    secret_box: SecretBox


class Operator(Core, frozen=True, kw_only=True):
    """A person who works beside the service; the pool connects as ``pixconnect_operator``."""

    operator: str
    """The actor, as the audit names it."""
    sending_box: SecretBox | None = None
    """Of credentials that send money over accounts at institutions; ``None`` where there is no key of it."""

    def acting_as(self, operator: str) -> Operator:
        """The same for another person, as the audit names them: in the console one process acts for many."""
        return replace(self, operator=operator)


class Writer(Core, frozen=True, kw_only=True):
    """Writes money through queues: the service, and an operator's verb that has no rail."""

    directory: HolderDirectory
    writes: WriteQueues


class Context(Writer, frozen=True, kw_only=True):
    """All ports, which assembly makes once per process."""

    ids: IdBlocks
    rail: Rail
    locations: Locations
    signer: Signer
    receivers: Receivers
    sandbox_control: SandboxControl | None
    """``None`` in live mode."""
    wake_workers: WakeWorkers
    """Returns at once. Nothing depends on it: workers also look from time to time."""
    institutions: Institutions = field(default_factory=NoInstitutions)
    under_way: UnderWay = field(default_factory=UnderWay)
    failed_reports: FailedReports = field(default_factory=FailedReports)
    lookups: LookupBudgets = field(default_factory=LookupBudgets)
    server: ServerWatch = field(default_factory=ServerWatch)
    traces: OrderTraces | None = None
    """``None`` where none are sent."""

    def __post_init__(self) -> None:
        self.server.on_start(
            self.ids.forget, self.directory.forget_all, self.under_way.forget_all, self.failed_reports.forget_all
        )


async def draw_fault(context: Context, message: Message) -> str:
    """The effect of the rule; empty if there is none, or no sandbox to ask."""
    if context.sandbox_control is None:
        return ""
    try:
        return (await context.sandbox_control.call(sandbox_control.DRAW_FAULT, message)).effect or ""
    except SandboxUnavailable:
        return ""


_UNKNOWN = "the database was lost while this was written, and whether it was is unknown: look before you ask again"


class LoneWrite:
    """The transactions of one request, and whether any of them may have committed."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.may_be_durable = False

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Connection]:
        async with self._pool.acquire() as connection, self.begin_on(connection):
            yield connection

    @asynccontextmanager
    async def begin_on(self, connection: Connection) -> AsyncGenerator[Connection]:
        """The same on a connection that the caller keeps, for a lock that outlives the transaction."""
        transaction = connection.transaction()
        await transaction.start()
        try:
            yield connection
        except BaseException:
            await transaction.rollback()
            raise
        with self._committing():
            await transaction.commit()

    @contextmanager
    def _committing(self) -> Generator[None]:
        """Wrap commits: until its answer arrives, the outcome is unknown."""
        could_be_before, self.may_be_durable = self.may_be_durable, True
        try:
            yield
        except asyncpg.PostgresError as error:
            if not isinstance(error, DATABASE_AWAY):
                self.may_be_durable = could_be_before  # the server has refused it, all of it
            raise


@asynccontextmanager
async def writing(pool: Pool) -> AsyncGenerator[LoneWrite]:
    """Write in several transactions."""
    write = LoneWrite(pool)
    try:
        yield write
    except (*DATABASE_AWAY, *DATABASE_BUSY, errors.ServiceUnavailable) as error:
        if write.may_be_durable:
            raise errors.OutcomeUnknown(_UNKNOWN) from error
        raise


@asynccontextmanager
async def write_alone(pool: Pool) -> AsyncGenerator[Connection]:
    """Write in one transaction; errors as in ``writing``."""
    async with writing(pool) as write, write.transaction() as connection:
        yield connection


@contextmanager
def or_unknown(unknown: errors.OutcomeUnknown) -> Generator[None]:
    """The request is stored, and a worker continues it: after any failure here, "nothing was done" would be wrong."""
    try:
        yield
    except (*DATABASE_AWAY, *DATABASE_BUSY, errors.ServiceUnavailable) as error:
        raise unknown from error
