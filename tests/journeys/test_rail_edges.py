"""What the rail says is not always what we hoped, and who works stands still at times: nothing is lost or done twice."""

import asyncio
import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from itertools import count
from typing import Any

import asyncpg
import msgspec
import pytest

from pixconnect.adapters.rails.sandbox import HttpSandboxControl, SandboxConnection
from pixconnect.adapters.secret_box import AesSecretBox, read_secret_key
from pixconnect.adapters.system import SystemEntropy
from pixconnect.assembly import outside
from pixconnect.domain.money.holder import Party
from pixconnect.domain.money.rail import CreditReport
from pixconnect.domain.simulation.sandbox_control import PAY, OutsidePayer, OutsideTransfer
from support.installation import PIXCONNECT, ROOT, environment, run_verb, wait_until
from support.money_model import Asked, MoneyModel
from support.records import outside_party
from support.service import accepted, cancelled
from support.whole_installation import Account, WholeInstallation, open_whole_installation

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("rail edges")]

FUNDS_CENTS = 100_000_000
AMOUNTS_COUNT = 100  # so that the funds last however many transfers a fast machine makes
LEASE_S = 15.0
SETTLES_AFTER_S = 3_600
CALLERS_COUNT = 4
ENDINGS = {"settle": "CONFIRMED", "silent": "CONFIRMED", "reject-ac07": "ERROR"}

_numbers = count(1)


@pytest.fixture(scope="module")
def service() -> Iterator[WholeInstallation]:
    # However long those who stand still keep an order waiting, it is not given up.
    with open_whole_installation(api_processes_count="2", policy={"handover_timeout_s": 36000}) as opened:
        yield opened


# -- who works stands still --------------------------------------------------------------------------------


def test_workers_and_apis_that_stand_still_lose_and_double_nothing(service: WholeInstallation) -> None:
    account = service.open_account(FUNDS_CENTS)
    model = MoneyModel(deposits={account.holder_id: Counter([FUNDS_CENTS])})
    with second_worker(service) as second, ThreadPoolExecutor(CALLERS_COUNT) as callers:
        first, *apis = *service.installation.children("work"), *service.installation.children("serve")
        until_s = time.monotonic() + LEASE_S + 8
        sending = [callers.submit(keep_sending, service, account, until_s) for _ in range(CALLERS_COUNT)]
        with stopped(first, apis[0]):
            time.sleep(3)  # the second worker takes over, and is stopped with all that it has begun
            with stopped(second, apis[1]):
                time.sleep(LEASE_S - 2)
            time.sleep(2)
            # By now the first one's leases are over too.
        for sent in sending:
            for asked in sent.result():
                model.ask(asked)
        model.check_at_rest(service.settle([account]))
    service.check_books()
    service.check_heard([account])
    assert reports(service) == []


def keep_sending(service: WholeInstallation, account: Account, until_s: float) -> list[Asked]:
    """Transfers, one after the other, each until it is answered; and everything asked for twice."""
    sent: list[Asked] = []
    while time.monotonic() < until_s:
        number = next(_numbers)
        word, ending = list(ENDINGS.items())[number % len(ENDINGS)]
        asked = Asked(
            kind="transfer", holder_id=account.holder_id, external_id=f"edge-{number}",
            amount_cents=1 + number % AMOUNTS_COUNT, endings={ending},
        )  # fmt: skip
        body = {"amount": asked.amount_cents, "external_id": asked.external_id, "key_type": "EMAIL"}
        body["key"] = f"{word}@sandbox.pix.example"
        told = [service.insist(account, "POST", "/v1/connect/transfer/key", body).data["id"] for _ in range(2)]
        assert told[0] == told[1]
        asked.told_id = told[0]
        sent.append(asked)
    return sent


@contextmanager
def stopped(*pids: int) -> Iterator[None]:
    """Processes that stand still, as a machine that swaps or is moved does."""
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@contextmanager
def second_worker(service: WholeInstallation) -> Iterator[int]:
    """One more, which shares the work."""
    count_workers = "select count(*) from pg_stat_activity where application_name = 'pixconnect leases'"
    with subprocess.Popen(
        [*PIXCONNECT, "work"], cwd=ROOT, env=environment(service.installation.home), stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as worker:  # fmt: skip
        try:
            wait_until(lambda: asyncio.run(fetch(service, count_workers)) == 2)
            yield worker.pid
        finally:
            worker.terminate()


# -- what the rail says ------------------------------------------------------------------------------------


def test_a_poisoned_report_among_good_ones_is_refused_and_holds_back_nobody(service: WholeInstallation) -> None:
    account = service.open_account()
    words = asyncio.run(pay(service, account, ["Joana"] * 20 + ["Jo\0ana"] + ["Joana"] * 20))
    # Whoever pays waits 10 s for our word, and is told PROCESSING when there was none yet, as on a busy machine.
    expected = ["CONFIRMED"] * 20 + ["CH16"] + ["CONFIRMED"] * 20
    assert all(word in {"PROCESSING", said} for word, said in zip(words, expected, strict=True)), words
    ended = f"select count(*), count(*) filter (where code is null), max(code) from sandbox.arrival where key = '{account.key}'"
    wait_until(lambda: count_open_arrivals(service, account) == 0)
    assert tuple(asyncio.run(fetch_row(service, ended))) == (41, 40, "CH16")
    assert balance(service, account) == 40 * 100
    [kept] = reports(service)
    assert (kept["kind"], kept["reason"], kept["refusal_code"]) == ("credit", "cannot_be_recorded", "CH16")
    wait_for_rail_check(service, "1 report waits")
    close(service, kept["id"])
    service.check_books()


# Both steps of a payment, in the order in which they are reported, and how it and its charge end.
_STEPS = {
    ("accepted", "settled"): ("CONFIRMED", "APPROVED"),
    ("settled", "accepted"): ("CONFIRMED", "APPROVED"),
    ("settled", "cancelled"): ("CONFIRMED", "APPROVED"),
    ("accepted", "cancelled"): ("ERROR", "PENDING"),
    ("cancelled", "accepted"): ("ERROR", "PENDING"),
    ("cancelled", "settled"): ("ERROR", "PENDING"),
}


def test_a_credit_in_two_steps_ends_once_in_every_order_of_arrival(service: WholeInstallation) -> None:
    account = service.open_account()
    expected: dict[str, tuple[str, str]] = {}
    for steps, ending in _STEPS.items():
        body = {"amount": 100, "key": account.key, "external_id": "-".join(steps)}
        charge = service.insist(account, "POST", "/v1/connect/charge", body).data
        asyncio.run(fetch(service, arrival_in_two_steps(account, charge["transaction_identification"], steps)))
        expected[charge["transaction_identification"]] = ending
    service.kill("sandbox")  # the next one reads what it has to report
    wait_until(lambda: count_open_arrivals(service, account) == 0)
    things = service.see([account]).things
    charges = {thing.id: thing for thing in things if thing.kind == "charge"}
    paid = {charges[thing.charge_id or 0].name: thing.status for thing in things if thing.kind == "transfer"}
    assert {txid: (paid[txid], charge.status) for txid, charge in ((c.name, c) for c in charges.values())} == expected
    assert balance(service, account) == 300
    # Whatever contradicts the first end moves nothing, and waits for an operator.
    kept = reports(service)
    assert sorted(report["kind"] for report in kept) == ["credit", "credit_cancelled"]
    assert {report["reason"] for report in kept} == {"contradiction"}
    for report in kept:
        run_verb(service.installation.home, "report", "close", str(report["id"]), "--reason", "seen to")
    assert reports(service) == []
    service.check_books(is_rail_true=False)
    wait_until(lambda: service.see([account]).waiting_count == 0)
    service.check_heard([account])


def count_open_arrivals(service: WholeInstallation, account: Account) -> object:
    """How many payments the sandbox has not heard our last word of."""
    return asyncio.run(fetch(service, f"select count(*) from sandbox.arrival where key = '{account.key}' and is_open"))


def arrival_in_two_steps(account: Account, txid: str, steps: tuple[str, str]) -> str:
    """A payment that the sandbox has to report in these steps, as SQL."""
    now = datetime.now(UTC)
    end_to_end_id = f"E99999004{now:%Y%m%d%H%M}{next(_numbers):011d}"
    credit = CreditReport(
        report_id=end_to_end_id, end_to_end_id=end_to_end_id, amount_cents=100,
        debit_party=outside_party(), credit_party=own_party(account), txid=txid, initiation_type="QRCODE", reported_at=now,
    )  # fmt: skip
    kinds = {"settled": credit, "accepted": accepted(credit), "cancelled": cancelled(credit)}
    reports = [
        msgspec.json.encode(msgspec.structs.replace(kinds[step], report_id=name)).decode().replace("'", "''")
        for step, name in zip(steps, (f"{end_to_end_id}/1", end_to_end_id), strict=True)
    ]
    return f"""
        insert into sandbox.arrival (number, id, kind, amount_cents, key, report, taken_at, due_at, is_open, next_report,
            next_after_ms)
        select coalesce(max(number), 0) + 1, '{end_to_end_id}', 'credit', 100, '{account.key}', '{reports[0]}', now(), now(),
            true, '{reports[1]}', 0 from sandbox.arrival;
    """


async def pay(service: WholeInstallation, account: Account, payers: list[str]) -> list[str]:
    """Payments from outside, all at once; what each payer is told."""
    party = own_party(account)
    async with control(service) as outside:
        arrivals = await asyncio.gather(
            *(
                outside.call(PAY, OutsideTransfer(credit_party=party, amount_cents=100, payer=OutsidePayer(name=name)))
                for name in payers
            )
        )
    return [arrival.code or arrival.status for arrival in arrivals]


def own_party(account: Account) -> Party:
    return Party(
        account_number="1", account_type="TRANSACTIONAL", branch="0001", ispb="99999003", name="Maria Souza",
        tax_id="52998224725", key=account.key, key_type="EMAIL",
    )  # fmt: skip


@asynccontextmanager
async def control(service: WholeInstallation) -> AsyncIterator[HttpSandboxControl]:
    box = AesSecretBox(read_secret_key("", service.installation.home), SystemEntropy())
    connection = SandboxConnection(running(service)["rail_url"], outside.rail_secrets(box)[0])
    try:
        yield HttpSandboxControl(connection)
    finally:
        await connection.close()


def test_a_settlement_of_ours_whose_rows_are_gone_waits_for_an_operator(service: WholeInstallation) -> None:
    """As after a restore: the rail has not forgotten. It comes last: the books of this holder are not mended by it."""
    account = service.open_account(FUNDS_CENTS)
    # It settles when the clock is moved: however slow the machine is, its rows are gone by then.
    rule = {"match": {"operation": "submit"}, "effect": f"delay:{SETTLES_AFTER_S * 1000}", "times": 1}
    service.insist(account, "PUT", "/sandbox/v1/faults", {"rules": [rule]})
    body = {"amount": 700, "key": "settle@sandbox.pix.example", "key_type": "EMAIL", "external_id": "forgotten"}
    sent = service.insist(account, "POST", "/v1/connect/transfer/key", body).data
    is_taken = f"select count(*) from sandbox.settlement where id = '{sent['end_to_end_id']}'"
    wait_until(lambda: asyncio.run(fetch(service, is_taken)) == 1)
    for table, column in (("open_order", "name"), ("transfer", "end_to_end_id")):
        forget = f"delete from pixconnect.{table} where {column} = '{sent['end_to_end_id']}'"
        asyncio.run(fetch(service, f"set session_replication_role = 'replica'; {forget}"))
    service.advance_clock(account, SETTLES_AFTER_S)
    wait_until(lambda: reports(service) != [])
    [kept] = reports(service)
    assert (kept["kind"], kept["reason"], kept["name"]) == ("settled", "unknown_order", sent["end_to_end_id"])
    wait_for_rail_check(service, "1 report waits")
    before = balance(service, account)
    is_open = f"select is_open from sandbox.settlement where id = '{sent['end_to_end_id']}'"
    wait_until(lambda: asyncio.run(fetch(service, is_open)) is False)  # it was acknowledged, once it was kept
    close(service, kept["id"])
    assert balance(service, account) == before
    # What verify has found of the tests before this one, whose rail was made to lie, keeps the whole of health degraded.
    wait_for_rail_check(service, "healthy")


def reports(service: WholeInstallation) -> list[dict[str, Any]]:
    done = run_verb(service.installation.home, "report", "list", "--json")
    return json.loads(done.stdout)["reports"]


def close(service: WholeInstallation, kept_id: int) -> None:
    done = run_verb(service.installation.home, "report", "close", str(kept_id), "--reason", "seen to")
    assert done.returncode == 0, done.stderr
    assert reports(service) == []


def wait_for_rail_check(service: WholeInstallation, words: str) -> None:
    """Health repeats an answer for a moment, and on a busy machine the check may get none in its time."""

    def is_said() -> bool:
        found = service.installation.health_report().get("checks", {}).get("rail", {})
        return words in (found.get("error") or found.get("status", ""))

    wait_until(is_said)


def balance(service: WholeInstallation, account: Account) -> int:
    return service.insist(account, "GET", "/v1/connect/ledger/balance").data["available_funds"]


def running(service: WholeInstallation) -> dict[str, str]:
    return json.loads((service.installation.home / "running.json").read_text())


async def fetch_row(service: WholeInstallation, query: str) -> asyncpg.Record:
    connection = await asyncpg.connect(running(service)["owner_database_url"], timeout=60)
    try:
        found = await connection.fetchrow(query)
        assert found is not None
        return found
    finally:
        await connection.close()


async def fetch(service: WholeInstallation, sql: str) -> object:
    connection = await asyncpg.connect(running(service)["owner_database_url"], timeout=60)
    try:
        return await (connection.execute(sql) if ";" in sql else connection.fetchval(sql))
    finally:
        await connection.close()
