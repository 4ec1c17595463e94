"""Workers and API processes that are suspended for longer than a lease lose nothing and do nothing twice."""

import asyncio
import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from typing import Any

import asyncpg
import pytest

from support.installation import PIXCONNECT, ROOT, environment, run_verb, standing_still
from support.money_model import Asked, MoneyModel
from support.waiting import wait_until
from support.whole_installation import Account, WholeInstallation, open_whole_installation

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("rail edges")]

FUNDS_CENTS = 100_000_000
AMOUNTS_COUNT = 100  # so that the funds last on a fast machine too
LEASE_S = 15.0
CALLERS_COUNT = 4
ENDINGS = {"settle": "CONFIRMED", "silent": "CONFIRMED", "reject-ac07": "ERROR"}

_numbers = count(1)


@pytest.fixture(scope="module")
def service() -> Iterator[WholeInstallation]:
    # Nothing expires however long suspended processes keep an order waiting.
    with open_whole_installation(api_processes_count="2", policy={"handover_timeout_s": 36000}) as opened:
        yield opened


def test_workers_and_apis_that_stand_still_lose_and_double_nothing(service: WholeInstallation) -> None:
    account = service.open_account(FUNDS_CENTS)
    model = MoneyModel(deposits={account.holder_id: Counter([FUNDS_CENTS])})
    with second_worker(service) as second, ThreadPoolExecutor(CALLERS_COUNT) as callers:
        first, *apis = *service.installation.children("work"), *service.installation.children("serve")
        until_s = time.monotonic() + LEASE_S + 8
        sending = [callers.submit(keep_sending, service, account, until_s) for _ in range(CALLERS_COUNT)]
        with standing_still(first, apis[0]):
            time.sleep(3)  # the second worker takes over, and is suspended with all its work
            with standing_still(second, apis[1]):
                time.sleep(LEASE_S - 2)
            time.sleep(2)
            # By now the first one's leases have ended too.
        for sent in sending:
            for asked in sent.result():
                model.ask(asked)
        model.check_at_rest(service.settle([account]))
    service.check_books()
    service.check_heard([account])
    assert reports(service) == []


def keep_sending(service: WholeInstallation, account: Account, until_s: float) -> list[Asked]:
    """Make transfers one after the other until each is answered, and repeat each request."""
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
def second_worker(service: WholeInstallation) -> Iterator[int]:
    """A second worker, which shares the work."""
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


def reports(service: WholeInstallation) -> list[dict[str, Any]]:
    done = run_verb(service.installation.home, "report", "list", "--json")
    return json.loads(done.stdout)["reports"]


def close(service: WholeInstallation, kept_id: int) -> None:
    done = run_verb(service.installation.home, "report", "close", str(kept_id), "--reason", "seen to")
    assert done.returncode == 0, done.stderr
    assert reports(service) == []


def running(service: WholeInstallation) -> dict[str, str]:
    return json.loads((service.installation.home / "running.json").read_text())


async def fetch(service: WholeInstallation, sql: str) -> object:
    connection = await asyncpg.connect(running(service)["owner_database_url"], timeout=60)
    try:
        return await (connection.execute(sql) if ";" in sql else connection.fetchval(sql))
    finally:
        await connection.close()
