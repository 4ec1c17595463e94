"""What every use case gets: the database, the ports, and the operator's rules."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct, field

from pixconnect.domain.frame.clock import Clock
from pixconnect.domain.frame.entropy import Entropy
from pixconnect.domain.frame.secret_box import SecretBox
from pixconnect.domain.identity.signing import Signer
from pixconnect.domain.money.rail import Rail
from pixconnect.domain.simulation.sandbox_control import SandboxControl
from pixconnect.domain.standard.outside_location import Locations
from pixconnect.domain.webhooks.receivers import Receivers
from pixconnect.foundation.notifier import WakeWorkers
from pixconnect.foundation.pool import Pool
from pixconnect.store.frame.identifiers import IdBlocks
from pixconnect.usecases.frame.directory import HolderDirectory
from pixconnect.usecases.frame.failed_reports import FailedReports
from pixconnect.usecases.frame.institutions import Institutions, NoInstitutions
from pixconnect.usecases.frame.lookup_budget import LookupBudgets
from pixconnect.usecases.frame.order_traces import OrderTraces
from pixconnect.usecases.frame.policy import Policy
from pixconnect.usecases.frame.server_watch import ServerWatch
from pixconnect.usecases.frame.under_way import UnderWay
from pixconnect.writing.write_queues import WriteQueues

# One port each: a use case adds up those that it needs, and ``Context`` has them all.


class HasPool(Protocol):
    @property
    def pool(self) -> Pool: ...


class HasClock(Protocol):
    @property
    def clock(self) -> Clock: ...


class HasEntropy(Protocol):
    @property
    def entropy(self) -> Entropy: ...


class HasIds(Protocol):
    @property
    def ids(self) -> IdBlocks: ...


class HasWrites(Protocol):
    @property
    def writes(self) -> WriteQueues: ...


class HasPolicy(Protocol):
    @property
    def policy(self) -> Policy: ...


class HasDirectory(Protocol):
    @property
    def directory(self) -> HolderDirectory: ...


class HasRail(Protocol):
    @property
    def rail(self) -> Rail: ...


class HasInstitutions(Protocol):
    @property
    def institutions(self) -> Institutions: ...


class HasLocations(Protocol):
    @property
    def locations(self) -> Locations: ...


class HasSigner(Protocol):
    @property
    def signer(self) -> Signer: ...


class HasReceivers(Protocol):
    @property
    def receivers(self) -> Receivers: ...


class HasSecretBox(Protocol):
    @property
    def secret_box(self) -> SecretBox: ...


class HasSandboxControl(Protocol):
    @property
    def sandbox_control(self) -> SandboxControl | None: ...


class HasWakeWorkers(Protocol):
    @property
    def wake_workers(self) -> WakeWorkers: ...


class HasUnderWay(Protocol):
    @property
    def under_way(self) -> UnderWay: ...


class HasFailedReports(Protocol):
    @property
    def failed_reports(self) -> FailedReports: ...


class HasServer(Protocol):
    @property
    def server(self) -> ServerWatch: ...


class HasTraces(Protocol):
    @property
    def traces(self) -> OrderTraces | None: ...


class HasLookups(Protocol):
    @property
    def lookups(self) -> LookupBudgets: ...


class Context(Struct, frozen=True, kw_only=True):
    """All ports, which assembly makes once per process. Use cases ask for fewer."""

    pool: Pool
    clock: Clock
    entropy: Entropy
    ids: IdBlocks
    writes: WriteQueues
    policy: Policy
    directory: HolderDirectory
    rail: Rail
    locations: Locations
    signer: Signer
    receivers: Receivers
    secret_box: SecretBox
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
