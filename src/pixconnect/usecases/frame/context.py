"""The records that use cases take: the database, the ports, and the operator's rules.

A use case takes ``Context``. It takes ``Core`` if operators' verbs also call it, and ``Writer`` if those that write money do.
The command line and the preparation of the sandbox open an ``Operator``. No ``Context`` is one: it connects as the service,
whose role may not do what operators do.
"""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

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
