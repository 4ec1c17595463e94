"""The records that use cases take: the database, the ports, and the operator's rules.

A use case takes ``Context``. It takes ``Core`` if operators' verbs also call it, and ``Writer`` if those that write money do.
The command line and the preparation of the sandbox open an ``Operator``. No ``Context`` is one: it connects as the service,
whose role may not do what operators do.

``FailedReports`` counts how often the recording of a report has failed in this process. Forgetting one costs only time: a
report that is not acknowledged comes again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import structlog
from msgspec import Struct, field
from msgspec.structs import replace

from pixconnect.domain.frame.clock import Clock
from pixconnect.domain.frame.entropy import Entropy
from pixconnect.domain.frame.secret_box import SecretBox
from pixconnect.domain.identity.signing import Signer
from pixconnect.domain.institutions.account import InstitutionAccount
from pixconnect.domain.money.rail import Abilities, Rail
from pixconnect.domain.rules.register import ARRANGEMENT
from pixconnect.domain.simulation import sandbox_control
from pixconnect.domain.simulation.sandbox_control import Message, SandboxControl, SandboxUnavailable
from pixconnect.domain.standard.outside_location import Locations
from pixconnect.domain.webhooks.delivery import Receivers
from pixconnect.foundation.bounded_cache import BoundedCache
from pixconnect.foundation.notifier import WakeWorkers
from pixconnect.foundation.pool import Pool
from pixconnect.store.frame.identifiers import IdBlocks
from pixconnect.store.reading import trace as trace_store
from pixconnect.store.reading.trace import TracedOrder
from pixconnect.usecases.frame.directory import HolderDirectory
from pixconnect.usecases.frame.institutions import Institutions, NoInstitutions
from pixconnect.usecases.frame.lookup_budget import LookupBudgets
from pixconnect.usecases.frame.server_watch import ServerWatch
from pixconnect.usecases.frame.under_way import UnderWay
from pixconnect.writing.write_queues import WriteQueues

_REMEMBERED_MAX: Final = 8192
LOOK_UP_TIMEOUT_S: Final = 1.0
"""A busy database answers what is due first."""

_log = structlog.get_logger(__name__)


class OrderTraces:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._by_name = BoundedCache[str, TracedOrder | None](_REMEMBERED_MAX)

    async def look_up(self, names: Sequence[str]) -> None:
        """Find those of orders, before they are marked; whatever goes wrong, the orders go on without them."""
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
        """What is known of an order; ``None`` where it has no trace, or it is not known."""
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
    """What was chosen where no source says what an institution answers, by the face's name and the choice's."""


TRIES_MIN: Final = 3
LASTING_MIN_S: Final = 10.0
"""Both must be reached: three tries alone pass in a moment, and the scheme waits 40 s for an answer."""
OVERTAKEN_MIN_S: Final = 300.0
"""So long one is waited for that is told later than what is said of it; by then it was never here."""
REMEMBERED_MAX: Final = 4096
"""The one that has not failed for longest is forgotten first."""


class FailedReports:
    def __init__(self, lasting_min_s: float = LASTING_MIN_S, overtaken_min_s: float = OVERTAKEN_MIN_S) -> None:
        self._lasting_min_s = lasting_min_s
        self._overtaken_min_s = overtaken_min_s
        self._failures = BoundedCache[str, tuple[int, float]](REMEMBERED_MAX)

    def is_enough(self, name: str, now_s: float) -> bool:
        """Count a failure; answers whether this report has failed often and long enough."""
        return self._count(name, now_s, self._lasting_min_s)

    def is_about_nothing(self, name: str, now_s: float) -> bool:
        """Count that what this report is about is not known; answers whether it was waited for long enough."""
        # Of a name of its own: having waited for it is no failure to record it.
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
    """The effect of the rule; empty where there is none, or nobody to ask."""
    if context.sandbox_control is None:
        return ""
    try:
        return (await context.sandbox_control.call(sandbox_control.DRAW_FAULT, message)).effect or ""
    except SandboxUnavailable:
        return ""
