"""An installation that reads at a standby: if the standby fails, callers and operators still read true data, with a notice."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from pixconnect.kernel.flows import standby as standby_usecases
from support import standby as servers
from support.installation import run_verb
from support.ports import reserved_pair
from support.postgres import Addresses
from support.prometheus import find_program
from support.waiting import wait_until
from support.watching import watching
from support.whole_installation import Account, WholeInstallation, open_whole_installation

pytestmark = [pytest.mark.journey, pytest.mark.long]

ALERT = "StandbyUnread"
EVER = "initial_date=2020-01-01T00:00:00Z&final_date=2099-12-31T23:59:59Z"
READS = (
    "/v1/connect/charge/list",
    "/v1/connect/transfer/list",
    "/v1/connect/refund/list",
    "/v1/connect/ledger/list",
    f"/v1/connect/ledger/statement?{EVER}",
)


@contextmanager
def open_pair(runner: asyncio.Runner) -> Iterator[tuple[Addresses, servers.Standby]]:
    pair = servers.open_pair(waits=False)
    _, addresses, standby = runner.run(pair.__aenter__())
    try:
        yield addresses, standby
    finally:
        runner.run(pair.__aexit__(None, None, None))


def count_reads(port: int, outcome: str) -> float:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(
        float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith("pixconnect_standby_reads_total") and f'outcome="{outcome}"' in line
    )


def read_all(service: WholeInstallation, account: Account) -> list[object]:
    # A list has the number of its pages, and nothing that changes each time.
    return [service.insist(account, "GET", path).data for path in READS]


def is_used(service: WholeInstallation) -> bool:
    return service.installation.health_report()["checks"]["standby"]["status"] == "healthy"


def test_an_installation_reads_at_its_standby_and_goes_on_without_it(tmp_path: Path) -> None:
    find_program("prometheus")
    with asyncio.Runner() as runner, ExitStack() as ended:
        addresses, standby = ended.enter_context(open_pair(runner))
        metrics = ended.enter_context(reserved_pair())
        settings = dict(
            database_url=addresses.service_url,
            owner_database_url=addresses.owner_url,
            read_database_url=standby.addresses.service_url,
            metrics_port=str(metrics),
        )
        service = ended.enter_context(open_whole_installation(**settings))
        seen = ended.enter_context(watching(tmp_path, {"work": [metrics], "serve": [metrics + 1]}))
        account = service.open_account(1_000_000)
        body = dict(amount=7, key="settle@sandbox.pix.example", key_type="EMAIL", external_id="sent")
        service.insist(account, "POST", "/v1/connect/transfer/key", body)
        service.settle([account])

        def read_all_there() -> list[object] | None:
            # Each process checks the standby for itself: the worker's use of it says nothing about the others.
            before = count_reads(metrics + 1, "answered")
            found = read_all(service, account)
            return found if count_reads(metrics + 1, "answered") == before + len(READS) else None

        wait_until(lambda: is_used(service), "the standby is used")
        # Rows of that age are there.
        runner.run(asyncio.sleep(standby_usecases.AGE_MAX_S))
        shown = read_all(service, account)
        wait_until(lambda: read_all_there() == shown, "all lists are read at the standby")
        assert "sent" in json.dumps(shown)
        home = service.installation.home
        assert json.loads(verify(home, settings))["findings"] == []

        # It stops, and then it is gone: the data stay the same, and operators are informed.
        with standby.standing_still():
            assert read_all(service, account) == shown
            wait_until(lambda: not is_used(service), "one that stands still is left")
            assert read_all(service, account) == shown
        wait_until(lambda: is_used(service), "the standby is used again")
        standby.end()
        assert read_all(service, account) == shown
        seen.wait_until_firing(ALERT)
        assert json.loads(verify(home, settings))["findings"] == []
        standby.start()
        seen.wait_until_quiet(ALERT)
        wait_until(lambda: read_all_there() == shown, "lists are read at the standby once more")


def verify(home: Path, settings: dict[str, str]) -> str:
    given = {name: value for name, value in settings.items() if name != "metrics_port"}
    proved = run_verb(home, "verify", "--whole", "--again-after-s", "2", "--json", **given)
    assert proved.returncode in {0, 7}, proved.stderr
    return proved.stdout
