"""The records that use cases take (database, ports, operator's rules), and writes outside of batches.

- A use case takes ``Context``, or ``Core`` if operators' verbs also call it, or ``Writer`` if those verbs write money.
- The command line and the preparation of the sandbox open an ``Operator``. No ``Context`` is one: it connects as the service,
  whose role has fewer rights.

``FailedReports`` counts how often this process failed to record a report. A forgotten count costs only time, because the rail
repeats a report that is not acknowledged.

``Context.under_way`` caches the transfers and refunds that this process handed to the rail. While an order is open, its
transfer or refund changes only in its network id, which the order has too, so its end needs no second read. On a miss we read
the database.

A batch resolves a lost COMMIT by running again with the same ids. The rare writes here have no such ids: if a COMMIT was lost,
or a step failed after an earlier one had committed, the answer is ``OUTCOME_UNKNOWN``.

``of_caller`` makes use cases that only read the caller's own data.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar

import asyncpg
from msgspec import Struct, field
from msgspec.structs import replace

from pixconnect.kernel.flows.directory import HolderDirectory
from pixconnect.kernel.flows.lookup_budget import LookupBudgets
from pixconnect.kernel.flows.server_watch import ServerWatch
from pixconnect.kernel.register import ARRANGEMENT
from pixconnect.kernel.rules import identifiers
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.location import Locations
from pixconnect.kernel.rules.rail import Abilities, Rail
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import refund as refund_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.tables.clock import IdBlocks
from pixconnect.kernel.writing.write_queues import WriteQueues
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import Clock
from pixconnect.platform.base.entropy import Entropy, SecretBox
from pixconnect.platform.bounded_cache import BoundedCache
from pixconnect.platform.config import Settings
from pixconnect.platform.database_failure import DATABASE_AWAY, DATABASE_BUSY
from pixconnect.platform.notifier import WakeWorkers
from pixconnect.platform.pool import Connection, Pool

Opened = TypeVar("Opened")
_NOTHING: Final[Any] = object()


class Port(Generic[Opened]):
    """A feature's own part of a process's context; assembly opens it.

    ::

        SIGNER: Final = Port[Signer]("signer")
        ...
        context.port(SIGNER).sign_jws(payload)

    Args:
        name: For messages.
        default: The part of a process in which assembly opens none.
    """

    def __init__(self, name: str, default: Opened = _NOTHING) -> None:
        self.name, self.default = name, default


UNDER_WAY_MAX: Final = 4096  # about 8 MiB; the oldest handover is evicted first


async def read_ordered(pool: Connection | Pool, names: Sequence[str]) -> dict[str, Transfer | Refund]:
    """Read outgoing transfers and refunds by name from the database; unknown names are skipped."""
    transfers = [name for name in names if identifiers.names_a_transfer(name)]
    refunds = [name for name in names if not identifiers.names_a_transfer(name)]
    found: dict[str, Transfer | Refund] = {}
    if transfers:
        found |= await transfer_store.find_named(pool, transfers, "OUT")
    if refunds:
        found |= await refund_store.find_named(pool, refunds, "OUT")
    return found


class Policy(Struct, frozen=True, kw_only=True):
    """Settings of use cases. Periods have one value in every installation; tests use others."""

    ispb: str
    institution_name: str
    location_prefix: str  # host and path, without a scheme, that precede the txid in QR code payloads
    location_key_set_url: str
    auth_url: str
    base_url: str = ""  # the API's address as callers see it
    callback_base_url: str = ""  # base URL at which institutions reach the API
    is_sandbox: bool
    # Whether there is a rail. Without one, no order is ever marked as handed over.
    has_rail: bool = True
    abilities: Abilities = Abilities()  # the rail's
    # Lifetime of a charge that names none.
    charge_lifetime_s: int = ARRANGEMENT.find_constant("charge_lifetime").read_value()
    # The worker gives up an order that was not handed to the rail within this time, and releases its money.
    handover_timeout_s: int = 60
    token_lifetime_s: int = 300
    # Deliveries that may wait for one endpoint when events are replayed to it: a day of an event a second.
    webhook_pending_max: int = 100_000


TRIES_MIN: Final = 3
LASTING_MIN_S: Final = 10.0
"""Both must be reached: three tries alone pass in a moment, and the scheme waits 40 s for an answer."""
OVERTAKEN_MIN_S: Final = 300.0
"""How long a report waits for the fact that it refers to. After that, the fact never existed here."""
FAILURES_REMEMBERED_MAX: Final = 4096  # the report whose last failure is oldest is evicted first


class FailedReports:
    def __init__(self, lasting_min_s: float = LASTING_MIN_S, overtaken_min_s: float = OVERTAKEN_MIN_S) -> None:
        self._lasting_min_s = lasting_min_s
        self._overtaken_min_s = overtaken_min_s
        self._failures = BoundedCache[str, tuple[int, float]](FAILURES_REMEMBERED_MAX)

    def is_enough(self, name: str, now_s: float) -> bool:
        """Count a failure; return whether this report has failed often and long enough."""
        return self._count(name, now_s, self._lasting_min_s)

    def is_about_nothing(self, name: str, now_s: float) -> bool:
        """Count an unknown subject; return whether this report has waited for it long enough."""
        # Under a separate name: waiting for the subject is no failure to record it.
        return self._count(f"about {name}", now_s, self._overtaken_min_s)

    def _count(self, name: str, now_s: float, lasting_min_s: float) -> bool:
        count, first_s = self._failures.get(name, (0, now_s))
        self._failures.keep(name, (count + 1, first_s))
        return count + 1 >= TRIES_MIN and now_s - first_s >= lasting_min_s

    def forget_all(self) -> None:
        self._failures.clear()


class Core(Struct, frozen=True, kw_only=True):
    """Shared by the service and operators' verbs."""

    pool: Pool
    clock: Clock
    entropy: Entropy
    policy: Policy
    secret_box: SecretBox


class Operator(Core, frozen=True, kw_only=True):
    """An operator's session; its pool connects as ``pixconnect_operator``."""

    operator: str  # the actor's name in the audit
    # Opens credentials that send money from accounts at institutions; ``None`` without that key.
    sending_box: SecretBox | None = None

    def acting_as(self, operator: str) -> "Operator":
        """Return a copy with another actor: in the console one process acts for many operators."""
        return replace(self, operator=operator)


class Writer(Core, frozen=True, kw_only=True):
    """Writes money through queues: the service, or an operator's verb, which has no rail."""

    directory: HolderDirectory
    writes: WriteQueues


class Context(Writer, frozen=True, kw_only=True):
    """All ports; assembly builds one per process."""

    ids: IdBlocks
    rail: Rail
    locations: Locations
    wake_workers: WakeWorkers
    """Returns at once. Nothing depends on it: workers also look from time to time."""
    under_way: BoundedCache[str, Transfer | Refund] = field(default_factory=lambda: BoundedCache(UNDER_WAY_MAX))
    """By name."""
    failed_reports: FailedReports = field(default_factory=FailedReports)
    lookups: LookupBudgets = field(default_factory=LookupBudgets)
    server: ServerWatch = field(default_factory=ServerWatch)
    ports: Mapping[Port[Any], Any] = {}
    """The parts that features have in it."""

    def __post_init__(self) -> None:
        self.server.on_start(self.ids.forget, self.directory.forget_all, self.under_way.clear, self.failed_reports.forget_all)

    def port(self, port: Port[Opened]) -> Opened:
        opened = self.ports.get(port, port.default)
        if opened is _NOTHING:
            raise LookupError(f"this process has no {port.name}")
        return opened

    def with_port(self, port: Port[Opened], opened: Opened) -> "Context":
        return replace(self, ports={**self.ports, port: opened})


class PortRow(Struct, frozen=True, kw_only=True):
    """Ports that a feature opens in each process; they are closed after the last write, and before the connections."""

    open: Callable[[Settings, Core, ServerWatch], AbstractAsyncContextManager[Mapping[Port[Any], Any]]]


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
        """Begin on the caller's connection, for a lock that outlives the transaction."""
        transaction = connection.transaction()
        await transaction.start()
        try:
            yield connection
        except BaseException:
            await transaction.rollback()
            raise
        # Until the server's answer to the commit arrives, the outcome is unknown.
        could_be_before, self.may_be_durable = self.may_be_durable, True
        try:
            await transaction.commit()
        except asyncpg.PostgresError as error:
            if not isinstance(error, DATABASE_AWAY):
                self.may_be_durable = could_be_before  # the server has rolled it back
            raise


@asynccontextmanager
async def writing(pool: Pool) -> AsyncGenerator[LoneWrite]:
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
    """Report OUTCOME_UNKNOWN for any failure: the request is stored, and a worker continues it."""
    try:
        yield
    except (*DATABASE_AWAY, *DATABASE_BUSY, errors.ServiceUnavailable) as error:
        raise unknown from error


Asked = ParamSpec("Asked")
Read = TypeVar("Read")


def of_caller(
    read: Callable[Concatenate[Pool, int, Asked], Awaitable[Read]],
) -> Callable[Concatenate[Context, Caller, Asked], Awaitable[Read]]:
    """Make a use case from a store function that takes the pool and the holder first."""
    return lambda context, caller, *args, **more: read(context.pool, caller.holder_id, *args, **more)


def found_of_caller(
    read: Callable[Concatenate[Pool, int, Asked], Awaitable[Read | None]], missing: str
) -> Callable[Concatenate[Context, Caller, Asked], Awaitable[Read]]:
    """Likewise, with ``NotFound`` for what is missing, or another holder's: both must look alike."""

    async def find(context: Context, caller: Caller, /, *args: Asked.args, **more: Asked.kwargs) -> Read:
        return errors.found(await read(context.pool, caller.holder_id, *args, **more), missing)

    return find
