"""Count what one life costs, and one of fifty that are written together: calls, statements, rows and log.

    .venv/bin/python -m bench.budget                     both lives, by step
    .venv/bin/python -m bench.budget --statements        with each statement
    .venv/bin/python -m bench.budget --functions 20      with the functions called most
    .venv/bin/python -m bench.budget --used              with CPU, wake-ups and memory
    .venv/bin/python -m bench.budget --rest 60           the statements of a service at rest, by PostgreSQL's log

The lives run in this process, on a PostgreSQL of its own, with a rail and a receiver that answer at once.

- ``calls``: calls and resumptions of functions of ``pixconnect``, by ``sys.setprofile``;
- ``statements``: messages to PostgreSQL, each of them one round trip, without the two that wake another process;
- ``rows``: rows that are there afterwards and were not there before;
- ``log``: bytes of write-ahead log.

The first three are exact: ``tests/bench/test_budget.py`` fails when one of them grows. The others are the least of some runs
without the count of calls:

- ``python``, ``postgres``: microseconds of CPU, in this process and in those that serve its connections;
- ``wakes``: how often these processes slept and woke again (voluntary context switches);
- ``peak``: KiB of Python's objects that a step held at once, at most.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from itertools import product
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, cast

import asyncpg
import uvloop
from msgspec import Struct, structs

import pixconnect
from bench.harness.installation import installed
from bench.harness.processes import cpu_seconds
from bench.harness.statement_costs import tell_costs
from bench.measures.accepting import CHARGE, TRANSFER, TRANSFER_BODY
from bench.measures.end_to_end import CHARGE_TOLD_TWICE, TRANSFER_TOLD
from pixconnect.assembly.application import make_application
from pixconnect.doors.api.operation import Services
from pixconnect.doors.api.site import Site
from pixconnect.doors.worker.leases import SlotLeases
from pixconnect.features.webhooks.rules.delivery import WebhookExchange
from pixconnect.features.webhooks.rules.endpoint import EndpointRequest
from pixconnect.features.webhooks.service.endpoint import create_endpoint
from pixconnect.features.webhooks.worker.delivery import DeliveryWorker
from pixconnect.features.webhooks.worker.delivery_queue import QueueLimits
from pixconnect.features.webhooks.worker.delivery_records import AttemptLog
from pixconnect.kernel.feature import FeatureParts
from pixconnect.kernel.flows.handover import move_due
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.rules.rail import Report, SettledReport
from pixconnect.platform import pool as pools
from pixconnect.platform.config import POSTGRES_NEWEST
from pixconnect.platform.flow.overload import Admission
from pixconnect.platform.flow.turns import Turns
from pixconnect.platform.logging import AccessLog
from support import identity, postgres
from support.api import Api, HolderVerifier
from support.postgres import Addresses
from support.records import own_key
from support.service import EverySlot, FakeReceivers, Service, credit_report, open_holder, open_service

TOGETHER: Final = 50
REPEATED: Final = 9  # now and then a timer of the service falls into a step, and on a busy machine into most
WARM: Final = 6  # a connection prepares statements, and PostgreSQL plans them for the first five times
_LOOK_S: Final = 0.02
_BACKENDS: Final = "select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()"
_SETTLED_S: Final = 10
_STATEMENT: Final = re.compile(r"LOG:  (?:execute [^:]*|statement): (.*)", re.DOTALL)
_SOURCE: Final = str(Path(pixconnect.__file__).parent)
_SLOTS: Final = range(256)
_TABLES: Final = """
    select format('select count(*) from pixconnect.%I', relname) from pg_class
    where relnamespace = 'pixconnect'::regnamespace and relkind in ('r', 'p') and not relispartition
"""


class Cost(Struct, frozen=True, kw_only=True):
    functions: Counter[CodeType]
    statements: Sequence[str]
    rows_count: int
    log_bytes: int
    used: Sequence[float] = ()
    """CPU in Python and in PostgreSQL, wake-ups and memory, as above."""

    @property
    def calls_count(self) -> int:
        return self.functions.total()

    def weigh(self) -> tuple[int, int, int]:
        return len(self.statements), self.calls_count, self.log_bytes


Step = Callable[[], Awaitable[object]]


class Receivers(FakeReceivers):
    async def post(self, url: str, headers: Sequence[tuple[str, str]], body: bytes) -> WebhookExchange:
        return WebhookExchange(status_code=200, retry_after=None, response=b"", error=None, duration_us=100)


class Leases(EverySlot):
    """All slots, as the only worker holds them."""

    held = dict.fromkeys(_SLOTS, 0)
    workers_count = 1

    def may_start(self, slot: int, epoch: int) -> bool:
        return True

    is_held = may_start


class UnpolledWorker(DeliveryWorker):
    """It works when it is woken, and at no other time."""

    async def rest(self, news: asyncio.Event, rest_s: float, *, has_found: bool) -> None:
        await super().rest(news, 3600.0, has_found=has_found)


class Lives:
    """A service with one holder and one endpoint, its API and its deliveries."""

    def __init__(self, service: Service, api: Api, worker: DeliveryWorker, owner: asyncpg.Connection) -> None:
        self._service = service
        self._api = api
        self._worker = worker
        self._owner = owner
        self._count_rows = ""
        self._is_timed = False
        self._statements: list[str] = []

    async def count(self, life: str, together: int) -> dict[str, Cost]:
        """What each step of a life costs, for so many at once."""
        for _ in range(WARM):
            await self._run(life, together)
        runs = [await self._run(life, together) for _ in range(REPEATED)]
        # The least: whatever falls into a step only adds to it.
        return {step: min([run[step] for run in runs], key=Cost.weigh) for step in runs[0]}

    async def count_used(self, life: str, together: int) -> dict[str, Sequence[float]]:
        """What each step of a life uses: the least of some runs."""
        self._is_timed = True
        await self._run(life, together)
        runs = [await self._run(life, together) for _ in range(REPEATED)]
        tracemalloc.start()
        traced = await self._run(life, together)
        tracemalloc.stop()
        self._is_timed = False
        least = {step: map(min, zip(*(run[step].used[:-1] for run in runs), strict=True)) for step in traced}
        return {step: [*least[step], traced[step].used[-1]] for step in traced}

    def note(self, query: str) -> None:
        self._statements.append(" ".join(query.split()))

    async def _run(self, life: str, together: int) -> dict[str, Cost]:
        return await (self._transfer(together) if life == "transfer" else self._charge(together))

    async def _transfer(self, together: int) -> dict[str, Cost]:
        now = self._service.clock.now
        context = self._service.context
        made: list[Mapping[str, Any]] = []

        async def hand_over() -> None:
            await move_due(context, Leases(), _SLOTS, now() - timedelta(days=1), now(), 256)

        accept = await self._measure(lambda: self._post(TRANSFER, TRANSFER_BODY, together, made))
        told = await self._measure(self._deliver)
        handed = await self._measure(hand_over)
        reports = [SettledReport(report_id=f"s{one['id']}", id=one["end_to_end_id"], settled_at=now()) for one in made]
        ended = await self._measure(lambda: self._take(reports))
        return {"accept": accept, "deliver": told, "hand over": handed, "end": ended,
                "deliver again": await self._measure(self._deliver)}  # fmt: skip

    async def _charge(self, together: int) -> dict[str, Cost]:
        made: list[Mapping[str, Any]] = []
        create = await self._measure(lambda: self._post(CHARGE, {"amount": 1000, "key": own_key()}, together, made))
        told = await self._measure(self._deliver)
        ids = [one["id"] for one in made]
        txids = await self._owner.fetch("select txid from charge where id = any($1)", ids)
        reports = [credit_report(self._service, txid=txid, report_id=f"c{txid}") for (txid,) in txids]
        paid = await self._measure(lambda: self._take(reports))
        return {"create": create, "deliver": told, "be paid": paid, "deliver again": await self._measure(self._deliver)}

    async def _post(self, path: str, body: object, together: int, made: list[Mapping[str, Any]]) -> None:
        answers = await asyncio.gather(*(self._api.post(path, body) for _ in range(together)))
        if any(answer.status != 200 for answer in answers):
            raise RuntimeError(answers[0])
        made += [answer.body["data"] for answer in answers]

    async def _take(self, reports: Sequence[Report]) -> None:
        if await take_reports(self._service.context, reports) != len(reports):
            raise RuntimeError("a report was not recorded")

    async def _deliver(self) -> None:
        """Deliver all that is due; without the polls of a worker that waits."""
        self._service.clock.advance(seconds=0.01)
        self._worker.wake()
        if self._is_timed:  # a look would be counted too
            await asyncio.sleep(10 * _LOOK_S)
            return
        while await self._owner.fetchval("select count(*) from delivery where status = 'pending'"):  # noqa: ASYNC110  nothing tells
            await asyncio.sleep(_LOOK_S)
        # Then it reads what waited for these.
        await asyncio.sleep(2 * _LOOK_S)

    async def _measure(self, step: Step) -> Cost:
        if self._is_timed:
            return await self._measure_used(step)
        functions = Counter[CodeType]()

        def note(frame: FrameType, event: str, argument: object) -> None:
            if event == "call":
                functions[frame.f_code] += 1

        rows_count, log = await self._read()
        self._statements.clear()
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            await step()
        finally:
            sys.setprofile(before)
        statements = list(self._statements)
        rows_now, log_now = await self._read()
        ours = Counter({code: n for code, n in functions.items() if code.co_filename.startswith(_SOURCE)})
        return Cost(functions=ours, statements=statements, rows_count=rows_now - rows_count, log_bytes=log_now - log)

    async def _measure_used(self, step: Step) -> Cost:
        backends = [pid for (pid,) in await self._owner.fetch(_BACKENDS)]
        before = _read_used(backends)
        tracemalloc.reset_peak()
        held = tracemalloc.get_traced_memory()[0]
        await step()
        peak = (tracemalloc.get_traced_memory()[1] - held) / 1024
        used = [*(now - then for now, then in zip(_read_used(backends), before, strict=True)), peak]
        return Cost(functions=Counter(), statements=(), rows_count=0, log_bytes=0, used=used)

    async def _read(self) -> tuple[int, int]:
        if not self._count_rows:
            counts = [row[0] for row in await self._owner.fetch(_TABLES)]
            self._count_rows = f"select {' + '.join(f'({count})' for count in counts)}"
        log = await self._owner.fetchval("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
        return await self._owner.fetchval(self._count_rows), int(log)


def _read_used(backends: Sequence[int]) -> Sequence[float]:
    told = [Path(f"/proc/{pid}/status").read_text() for pid in ("self", *backends)]
    wakes_count = sum(int(text.partition("\nvoluntary_ctxt_switches:")[2].split()[0]) for text in told)
    return 1e6 * time.process_time(), 1e6 * sum(map(cpu_seconds, backends)), wakes_count


@asynccontextmanager
async def open_lives(database: Addresses) -> AsyncGenerator[Lives]:
    """Lives on a fresh database."""
    async with (
        open_service(database, receivers=Receivers(), secret_key=identity.SECRET_KEY) as service,
        postgres.as_owner(database) as owner,
    ):
        context = service.context
        await identity.start_keyring(context)
        caller = await open_holder(service, funds_cents=100_000_000)
        told = EndpointRequest(
            url="http://127.0.0.1:1/",
            secret="a secret for this alone",  # noqa: S106
            event_types=(*CHARGE_TOLD_TWICE, *TRANSFER_TOLD),
        )
        await create_endpoint(context, caller, told)
        # As the keyring of a process keeps it, which reads the revision each second.
        context.directory.note_revision(1, service.clock.monotonic_s() + 3600)
        leases = cast("SlotLeases", Leases())
        worker = UnpolledWorker(context, leases, QueueLimits(), AttemptLog(context.clock, is_on=False))
        lives = Lives(service, _open_api(service, HolderVerifier({"good": caller})), worker, owner)
        running = asyncio.create_task(worker.run())
        try:
            with _noting(lives.note):
                yield lives
        finally:
            worker.stop()
            await running


def _open_api(service: Service, verifier: HolderVerifier) -> Api:
    context = service.context
    services = Services(
        context=context, verifier=cast("Any", verifier), of_features=FeatureParts({}), draw_qr_png=cast("Any", None),
        admission=Admission(), turns=Turns(), site=Site(None), base_url="http://127.0.0.1:8080", rates=None,
        trusted_proxies=(), version="0",
    )  # fmt: skip
    return Api(make_application(services, AccessLog(context.clock, wanted="off")))


@contextmanager
def _noting(note: Callable[[str], None]) -> Iterator[None]:
    """Note each statement that a pool's connection sends."""
    pooled: Any = pools._PooledConnection  # noqa: SLF001
    names = ("execute", "executemany", "fetch", "fetchrow", "fetchval")
    originals: dict[str, Callable[..., object]] = {name: getattr(pooled, name) for name in names}

    def noted(send: Callable[..., object]) -> Callable[..., object]:
        def sent(connection: object, query: str, *arguments: object, **options: object) -> object:
            note(query)
            return send(connection, query, *arguments, **options)

        return sent

    for name, send in originals.items():
        setattr(pooled, name, noted(send))
    try:
        yield
    finally:
        for name, send in originals.items():
            setattr(pooled, name, send)


def count_rest(seconds: int) -> Counter[str]:
    """Count the statements of a real service without requests."""
    with installed(is_proved=False) as service:
        asyncio.run(tell_costs(service, ("log_statement = 'all'", "log_min_messages = 'log'")))
        time.sleep(_SETTLED_S)
        log = service.home / "postgres.log"
        begins_at = log.stat().st_size
        time.sleep(seconds)
        lines = log.read_bytes()[begins_at:].decode(errors="replace")
    # A statement of several lines continues until the next line with a time.
    found = [_STATEMENT.search(line) for line in re.split(r"\n(?=\d{4}-\d\d-\d\d )", lines)]
    return Counter(" ".join(statement[1].split()) for statement in found if statement is not None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--statements", action="store_true", help="show each statement of a single life")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="show the functions called most")
    parser.add_argument("--used", action="store_true", help="show CPU, wake-ups and memory too")
    parser.add_argument("--rest", type=int, default=0, metavar="SECONDS", help="count a service at rest instead")
    options = parser.parse_args()
    if options.rest:
        counts = count_rest(options.rest)
        print(f"{counts.total()} statements in {options.rest} s")
        for statement, count in counts.most_common():
            print(f"{count:6}  {statement[:110]}")
        return
    server = postgres.Server(POSTGRES_NEWEST)
    addresses = server.start()
    try:
        for (life, together), steps in uvloop.run(_count(addresses, is_used=options.used)).items():
            _show(f"{life}, {together} at once", steps, options)
    finally:
        server.stop()


async def _count(server: Addresses, *, is_used: bool) -> dict[tuple[str, int], dict[str, Cost]]:
    found = dict[tuple[str, int], dict[str, Cost]]()
    async with open_lives(await postgres.make_copy(server, "budget")) as lives:
        for life, together in product(("transfer", "charge"), (1, TOGETHER)):
            costs = await lives.count(life, together)
            used = await lives.count_used(life, together) if is_used else {}
            found[life, together] = {step: structs.replace(cost, used=used.get(step, ())) for step, cost in costs.items()}
    return found


def _show(title: str, steps: Mapping[str, Cost], options: argparse.Namespace) -> None:
    heads = ("calls", "statements", "rows", "log", *(("python", "postgres", "wakes", "peak") if options.used else ()))
    print(f"\n{title:<24}" + "".join(f"{head:>12}" for head in heads))
    totals = [0.0] * len(heads)
    for step, cost in steps.items():
        counts = (cost.calls_count, len(cost.statements), cost.rows_count, cost.log_bytes, *cost.used)
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        print(f"  {step:<22}" + "".join(f"{count:12,.0f}" for count in counts))
        for statement in cost.statements if options.statements else ():
            print(f"      {statement[:100]}")
        for code, calls_count in cost.functions.most_common(options.functions):
            print(f"      {calls_count:8,}  {code.co_filename.removeprefix(_SOURCE)[1:]}:{code.co_qualname}")
    print(f"  {'in all':<22}" + "".join(f"{total:12,.0f}" for total in totals))


if __name__ == "__main__":
    main()
