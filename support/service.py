"""A service in this process: use cases on a real database, with fakes for everything outside."""

import asyncio
import hashlib
import string
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, cast
from uuid import UUID

import asyncpg
import msgspec
from msgspec import Struct, structs

from pixconnect.features.identity.service.keyring import SIGNER, Keyring
from pixconnect.features.webhooks.rules.delivery import Receivers
from pixconnect.features.webhooks.service.endpoint import RECEIVERS
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import holder as holder_usecases
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.context import Context, Core
from pixconnect.kernel.flows.directory import HolderDirectory
from pixconnect.kernel.flows.handover import move_due
from pixconnect.kernel.flows.server_watch import ServerWatch
from pixconnect.kernel.rules import rail as rails
from pixconnect.kernel.rules.access import SCOPES, Caller
from pixconnect.kernel.rules.block_report import Defence, DefenceAnswer, DefenceTaken, InfractionReport, TakenPart
from pixconnect.kernel.rules.charge import Charge, ChargeRequest
from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.location import LocationUnreachable, OutsideCharge
from pixconnect.kernel.rules.transfer import AccountTransferRequest, Transfer
from pixconnect.kernel.tables.clock import IdBlocks
from pixconnect.kernel.writing.write_queues import WriteQueues
from pixconnect.platform.adapters.secret_box import AesSecretBox
from pixconnect.platform.adapters.system import SystemEntropy
from pixconnect.platform.base.clock import Clock, Reading
from pixconnect.platform.base.webhook_exchange import WebhookExchange
from pixconnect.platform.pool import Connection, Pool, open_pool
from support import postgres
from support.kept_pools import kept_pools
from support.operators import as_operator
from support.postgres import Addresses
from support.records import ISPB, OUTSIDE_ISPB, PERSON, a_new_holder, a_policy, outside_party, own_key

STARTED_AT = datetime(2026, 7, 1, 15, 0, tzinfo=UTC)


class FakeClock:
    """Time that a test moves by hand, for the database and for the process, which may differ by the skew.

    With ``monotonic_s`` the monotonic clock also moves by hand only; by default it is the loop's.
    """

    def __init__(self, start: datetime = STARTED_AT, monotonic_s: float | None = None) -> None:
        self.real = start
        self._offset = timedelta(0)
        self._monotonic_s = monotonic_s
        self.revision = 0
        self.skew = timedelta(0)

    @property
    def offset(self) -> timedelta:
        return self._offset

    def set_offset(self, offset: timedelta, revision: int = 0) -> None:
        if revision >= self.revision:
            self._offset, self.revision = offset, revision

    def take(self, reading: Reading) -> datetime:
        self.set_offset(reading.offset, reading.revision)
        return self.real + reading.offset

    def now(self) -> datetime:
        return self.real + self._offset

    def real_now(self) -> datetime:
        return self.real

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time() if self._monotonic_s is None else self._monotonic_s

    def stand_still(self) -> None:
        """Move monotonic time by hand only from now on, because a rate limit does not allow for a slow machine."""
        self._monotonic_s = self.monotonic_s()

    def advance(self, **delta: float) -> None:
        passed = timedelta(**delta)
        self.real += passed
        if self._monotonic_s is not None:
            self._monotonic_s += passed.total_seconds()


class CountedEntropy:
    """Reproducible random numbers."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def octets(self, length: int) -> bytes:
        return hashlib.shake_256(b"%d" % next(self._numbers)).digest(length)

    def token(self, length: int) -> str:
        letters = string.ascii_letters + string.digits
        return "".join(letters[octet % len(letters)] for octet in self.octets(length))

    def uuid4(self) -> UUID:
        return UUID(bytes=self.octets(16), version=4)

    def uuid7(self) -> str:
        return str(self.uuid4())

    def fraction(self) -> float:
        return 0.5


class FakeRail:
    """A rail with prepared answers, which keeps what was submitted."""

    def __init__(self, abilities: rails.Abilities | None = None) -> None:
        self.abilities = abilities or rails.Abilities()
        self.entries: dict[str, rails.DirectoryEntry] = {}
        self.orders: list[rails.Order] = []
        self.refund_orders: list[rails.RefundOrder] = []
        self.queried: list[str] = []
        self.acknowledged: list[rails.Acknowledgement] = []
        self.answers: dict[str, deque[rails.SubmitAnswer]] = {}
        self.outcomes: dict[str, rails.QueryAnswer] = {}
        self.settled: list[rails.SettledItem] = []
        self.defences: list[Defence] = []
        self.defence_answers: deque[DefenceAnswer] = deque()
        self.is_reachable = True
        self.oldest_waits_since: datetime | None = None

    async def lookup_key(self, key: str, payer_tax_id: str, end_to_end_id: str) -> rails.DirectoryEntry | None:
        self._check()
        return self.entries.get(key)

    async def submit(self, orders: Sequence[rails.Order]) -> list[rails.SubmitAnswer]:
        self.orders += orders
        return [self._answer(order.end_to_end_id) for order in orders]

    async def submit_refunds(self, orders: Sequence[rails.RefundOrder]) -> list[rails.SubmitAnswer]:
        self.refund_orders += orders
        return [self._answer(order.return_id) for order in orders]

    async def query(self, ids: Sequence[str]) -> list[rails.QueryAnswer]:
        self._check()
        self.queried += ids
        return [self.outcomes.get(name, rails.Unknown()) for name in ids]

    async def send(
        self, kind: rails.MessageKind[rails.Message, rails.MessageAnswer], messages: Sequence[rails.Message]
    ) -> list[rails.MessageAnswer]:
        self.defences += cast("Sequence[Defence]", messages)
        laid_out = self.defence_answers
        answers = [laid_out.popleft() if laid_out else DefenceTaken() for _ in messages]
        return cast("list[rails.MessageAnswer]", answers)

    async def reports(self, wait_s: float) -> list[rails.Report]:
        self._check()
        return []

    async def waiting_since(self) -> datetime | None:
        self._check()
        return self.oldest_waits_since

    async def acknowledge(self, acknowledgements: Sequence[rails.Acknowledgement]) -> None:
        self._check()
        self.acknowledged += acknowledgements

    async def statement(self, since: datetime, until: datetime) -> AsyncGenerator[Sequence[rails.SettledItem]]:
        self._check()
        yield [item for item in self.settled if since <= item.settled_at < until]

    async def position(self) -> rails.Position:
        self._check()
        return rails.Position(amount_cents=0, as_of=STARTED_AT)

    async def check(self) -> None:
        self._check()

    def answer(self, *answers: rails.SubmitAnswer, name: str = "") -> None:
        """Prepare the answers to the next submissions, of one order or of any."""
        self.answers.setdefault(name, deque()).extend(answers)

    def _answer(self, name: str) -> rails.SubmitAnswer:
        laid_out = self.answers.get(name) or self.answers.get("")
        return laid_out.popleft() if laid_out else rails.Taken()

    def _check(self) -> None:
        if not self.is_reachable:
            raise rails.RailUnavailable("switched off")


class FakeLocations:
    def __init__(self) -> None:
        self.charges: dict[str, OutsideCharge] = {}

    async def read(self, location: str) -> OutsideCharge:
        if location not in self.charges:
            raise LocationUnreachable(location)
        return self.charges[location]


class FakeSigner:
    """A readable fake signature."""

    async def look_after_rest(self) -> None:
        return None

    def sign_jws(self, payload: bytes, header: Mapping[str, str] | None = None) -> str:
        return f"header.{payload.decode()}.signature"

    def sign_location(self, payload: bytes, jku: str) -> str:
        return f"{jku}.{payload.decode()}.signature"

    @property
    def current_kid(self) -> str:
        return "key"

    def sign_detached(self, body: bytes, header: Mapping[str, str | int]) -> str:
        return "header..signature"


class FakeReceivers:
    """A client without receivers."""

    async def check_url(self, url: str) -> None:
        return None

    async def post(self, url: str, headers: Sequence[tuple[str, str]], body: bytes) -> WebhookExchange:
        raise AssertionError("nothing is sent in these tests")


class Service(Struct, frozen=True, kw_only=True):
    context: Context
    clock: FakeClock
    rail: FakeRail
    locations: FakeLocations
    database: Addresses
    wakers: list[Callable[[], None]]  # callbacks for new work of workers
    sequencer_wakers: list[Callable[[], None]]  # callbacks for events without a position in the feed

    async def fetch(self, query: str, *arguments: Any) -> list[asyncpg.Record]:
        return await self.context.pool.fetch(query, *arguments)

    async def fetchval(self, query: str, *arguments: Any) -> Any:
        return await self.context.pool.fetchval(query, *arguments)

    async def set_holder(self, caller: Caller, **changes: Any) -> None:
        await holder_usecases.set_holder(as_operator(self.context), caller.holder_id, holder_usecases.HolderChanges(**changes))

    async def work(self, **later: float) -> int:
        """What a worker does with all due work after some time; returns how much there was."""
        self.clock.advance(**later)
        long_ago = STARTED_AT - timedelta(days=2)
        return len(await move_due(self.context, no_fence, range(256), long_ago, self.clock.now(), 256))

    async def execute_as_owner(self, statement: str) -> None:
        await postgres.execute_as_owner(self.database, statement)

    async def execute_without_guards(self, statement: str) -> None:
        """Change rows by hand, without triggers and constraints between rows."""
        await self.execute_as_owner(f"begin; set local session_replication_role = replica; {statement}; commit")


def a_context(*, pool: Any = None, **given: Any) -> Context:
    """A context with fakes for all ports that are not given."""
    clock, rules = given.setdefault("clock", FakeClock()), given.setdefault("policy", a_policy())
    made = {
        "entropy": SystemEntropy(),
        "ids": IdBlocks(pool),
        "writes": None,
        "directory": HolderDirectory(pool, ISPB, rules.institution_name, clock.monotonic_s),
        "rail": FakeRail(rules.abilities),
        "locations": FakeLocations(),
        "secret_box": AesSecretBox(bytes(32), SystemEntropy()),
        "ports": {SIGNER: FakeSigner(), RECEIVERS: FakeReceivers()},
        "wake_workers": lambda *_arguments, **_options: None,
    }
    return Context(pool=pool, **(made | given))


@asynccontextmanager
async def open_service(
    database: Addresses,
    *,
    clock: Clock | None = None,
    receivers: Receivers | None = None,
    secret_key: bytes | None = None,
    **policy: object,
) -> AsyncIterator[Service]:
    """A service on a database; several can share one, like processes.

    By default its clock stands still, there are no receivers, and nothing is signed; ``policy`` has differences from
    the policy of the tests.
    """
    clock, rules = clock or FakeClock(), a_policy(**policy)
    rail, locations = FakeRail(rules.abilities), FakeLocations()
    wakers: list[Callable[[], None]] = []
    sequencer_wakers: list[Callable[[], None]] = []

    def wake_workers(orders_count: int = 0, *, only_deliveries: bool = False) -> None:
        for wake in wakers:
            wake()

    def wake_sequencer() -> None:
        for wake in sequencer_wakers:
            wake()

    kept = kept_pools.take(database.service_url, role="pixconnect_service", connections_max=10, name="test")
    async with kept as pool:
        writes = WriteQueues(pool=pool, clock=clock, wake_workers=wake_workers, wake_sequencer=wake_sequencer)
        box = AesSecretBox(secret_key or bytes(32), SystemEntropy())
        core = Core(pool=pool, clock=clock, entropy=SystemEntropy(), policy=rules, secret_box=box)
        context = a_context(
            pool=pool,
            clock=clock,
            server=ServerWatch(has_rail=rules.has_rail),
            writes=writes,
            policy=rules,
            rail=rail,
            locations=locations,
            ports={
                SIGNER: FakeSigner() if secret_key is None else Keyring(core),
                RECEIVERS: receivers or FakeReceivers(),
            },
            secret_box=box,
            wake_workers=wake_workers,
        )
        try:
            yield Service(
                context=context, clock=cast(FakeClock, clock), rail=rail, locations=locations, database=database,
                wakers=wakers, sequencer_wakers=sequencer_wakers,
            )  # fmt: skip
        finally:
            await writes.close()


async def open_watched_pool(database: Addresses, watch: ServerWatch, connections_max: int) -> Pool:
    """As in a process of the service."""
    return await open_pool(
        database.service_url, role="pixconnect_service", schema="pixconnect", connections_max=connections_max, name="test",
        look=watch.look,
    )  # fmt: skip


async def open_holder(
    service: Service,
    *,
    account_number: str = "1",
    key: str | None = None,
    funds_cents: int = 0,
    has_address: bool = True,
    tax_id: str = PERSON,
) -> Caller:
    """A holder with funds and a key (an e-mail address with its account number)."""
    address = {} if has_address else dict(street=None, state=None, postal_code=None)
    new = a_new_holder(account_number=account_number, tax_id=tax_id, **address)
    holder = await holder_usecases.create_holder(as_operator(service.context), new)
    await holder_usecases.add_pix_key(as_operator(service.context), holder.id, "EMAIL", key or own_key(account_number))
    if funds_cents:
        await ledger_usecases.deposit(service.context, holder.id, funds_cents)
    return Caller(client_id="test", holder_id=holder.id, scopes=frozenset(SCOPES))


async def send_out(service: Service, caller: Caller, amount_cents: int, **changes: Any) -> Transfer:
    """An accepted transfer to an account at another institution."""
    terms = {"credit_party": outside_party(), **changes}
    request = AccountTransferRequest(amount_cents=amount_cents, **terms)
    return (await transfer_usecases.start_transfer(service.context, caller, request)).transfer


async def read_funds(service: Service, caller: Caller) -> tuple[int, int]:
    """A holder's available and reserved cents."""
    balance = await ledger_usecases.read_balance(service.context, caller)
    return balance.available_cents, balance.reserved_cents


async def make_charge(service: Service, caller: Caller, *, amount_cents: int = 1000, key: str | None = None) -> Charge:
    request = ChargeRequest(amount_cents=amount_cents, key=key or own_key())
    return await charge_usecases.create_charge(service.context, caller, request)


class EverySlot:
    """As a worker with every slot."""

    held: Mapping[int, int] = dict.fromkeys(range(256), 1)
    members: tuple[Any, ...] = ()

    def add(self, member: Any) -> None:
        self.members = (*self.members, member)

    def epochs_of(self, slots: Sequence[int]) -> dict[int, int]:
        return {}

    async def fence(self, connection: Connection, slots: Sequence[int]) -> None:
        """No other worker takes over a slot."""


no_fence = EverySlot()


def movement_report(service: Service, item_id: str = "M1", **changes: Any) -> rails.MovementReport:
    """The institution takes a fee of 1.00 from holder 1."""
    report = rails.MovementReport(
        report_id=item_id,
        item_id=item_id,
        party=credit_report(service).credit_party,
        kind="fee",
        direction="OUT",
        amount_cents=100,
        end_to_end_id=None,
        description="Tarifa",
        settled_at=service.clock.now(),
    )
    return structs.replace(report, **changes)


def infraction_report(
    service: Service, paid: str, name: str = "I1", *, amount_cents: int = 1000, **changes: Any
) -> InfractionReport:
    """A payer contests a Pix that holder 1 received, and all of it is blocked."""
    now = service.clock.now()
    report = InfractionReport(
        report_id=service.context.entropy.token(12),
        name=name,
        party=credit_report(service).credit_party,
        end_to_end_id=paid,
        amount_cents=amount_cents,
        reason="fraud",
        situation="scam",
        words="I never got the shoes",
        state="open",
        opened_at=now,
        respond_by=now + timedelta(days=7),
        wanted_cents=amount_cents,
        held_cents=amount_cents,
        taken=(),
        reported_at=now,
    )
    return structs.replace(report, **changes)


def decided(
    service: Service, report: InfractionReport, *taken_cents: int, rest_cents: int = 0, days: int = 1
) -> InfractionReport:
    """The institution takes a part, or releases all, days later."""
    at = max(report.reported_at + timedelta(days=days, seconds=1), service.clock.now())
    parts = tuple(
        TakenPart(
            return_id=f"D{OUTSIDE_ISPB}202607011500{service.context.entropy.token(11)}", amount_cents=cents, settled_at=at
        )
        for cents in taken_cents
        if cents
    )
    return structs.replace(
        report,
        report_id=service.context.entropy.token(12),
        state="taken" if parts else "released",
        wanted_cents=rest_cents,
        held_cents=0,
        taken=parts,
        reported_at=at,
    )


def credit_report(
    service: Service,
    *,
    amount_cents: int = 1000,
    account_number: str = "1",
    txid: str | None = None,
    end_to_end_id: str | None = None,
    report_id: str = "r1",
) -> rails.CreditReport:
    """A payment to a holder's key."""
    token = service.context.entropy.token(11)
    return rails.CreditReport(
        report_id=report_id,
        end_to_end_id=end_to_end_id or f"E{OUTSIDE_ISPB}202607011500{token}",
        amount_cents=amount_cents,
        debit_party=outside_party(),
        credit_party=Party(
            account_number=account_number, account_type="TRANSACTIONAL", branch="0001", ispb=ISPB, name="Maria Souza",
            tax_id="52998224725", key=own_key(account_number), key_type="EMAIL",
        ),
        txid=txid,
        initiation_type="KEY" if txid is None else "QRCODE",
        reported_at=service.clock.now(),
    )  # fmt: skip


def accepted(report: rails.CreditReport) -> rails.CreditAccepted:
    """The first of two steps of the same payment."""
    fields = msgspec.structs.asdict(report) | {"report_id": f"{report.report_id}/accepted"}
    return rails.CreditAccepted(**fields)


def held(report: rails.CreditReport, days: int = 3) -> rails.CreditHeld:
    """The institution holds the same payment as suspect."""
    fields = msgspec.structs.asdict(report) | {"report_id": f"{report.report_id}/held"}
    return rails.CreditHeld(**fields, until=report.reported_at + timedelta(days=days))


def cancelled(report: rails.CreditReport, code: str = "AB03") -> rails.CreditCancelled:
    """The end of the same payment, after it was accepted."""
    fields = msgspec.structs.asdict(report) | {"report_id": f"{report.report_id}/cancelled"}
    return rails.CreditCancelled(**fields, code=code)
