"""The messages to callers and operators during failures, as quoted on the page on failures, each by an experiment.

One installation on a separate server, with its data on a small disk if one can be mounted. Each experiment breaks one
thing, asks, and repairs it; then the refused requests are repeated, and the books are checked.
"""

import asyncio
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import httpx2
import pytest

from pixconnect.platform.local.embedded_postgres import EmbeddedPostgres
from pixconnect.platform.local.postgres_placement import LOGIN_ROLE
from support.failure_page import quoted
from support.home import SECRET_KEY, new_home
from support.installation import descendants, run_verb, standing_still
from support.postgres import execute
from support.small_disk import fill_disk, is_on_small_disk, server_on_small_disk
from support.waiting import wait_until
from support.whole_installation import Account, WholeInstallation, open_whole_installation

pytestmark = [pytest.mark.journey, pytest.mark.long]

HEALTH_PATIENCE_S = 60.0
FUNDS_CENTS = 1_000_000
_OTHER_KEY = SECRET_KEY.replace("b2xk", "bmV3")
_SPAN = re.compile(r"(?<= for )\d+(?= s\b)")
_LEVEL = re.compile(r'"level":"(\w+)"')
NO_ANSWER = "the database gives no answer"
_KID = re.compile(r"signing_key:\S+(?=:)")
_OFF = re.compile(r"-3\d{3}\.\d(?= s from)")


class Broken:
    """An installation whose parts fail, and its callers."""

    def __init__(self, service: WholeInstallation, server: EmbeddedPostgres, runner: asyncio.Runner) -> None:
        self.service = service
        self.server = server
        self.runner = runner
        self.account: Account = service.open_account(FUNDS_CENTS)
        self._http = httpx2.Client(base_url=service.installation.base_url, timeout=120, trust_env=False)
        self._token = str(self._log_in().json()["data"]["access_token"])
        self._numbers = count(1)
        self._last: dict[str, Any] = {}
        self._heard_count = 0

    def close(self) -> None:
        self._http.close()

    def move(self) -> httpx2.Response:
        self._last = dict(amount=1, key="settle@sandbox.pix.example", key_type="EMAIL")
        self._last["external_id"] = f"sent-{next(self._numbers)}"
        return self._ask("POST", "/v1/connect/transfer/key", self._last)

    def see(self, heading: str) -> list[str]:
        """All messages of this moment, in the page's order under a heading."""
        charge = dict(amount=100, key=self.account.key, external_id=f"asked-{next(self._numbers)}")
        return [
            f"a transfer:  {told(self.move())}",
            f"a charge:    {told(self._ask('POST', '/v1/connect/charge', charge))}",
            f"the balance: {told(self._ask('GET', '/v1/connect/ledger/balance'))}",
            f"a login:     {told(self._log_in())}",
            f"/readyz:     {self._http.get('/readyz').status_code}",
            f"health:      {self._health_under(heading)}",
        ]

    def health(self) -> str:
        report = self.service.installation.health_report()
        names: dict[str, list[str]] = {}
        for name, one in report.get("checks", {}).items():
            # The sandbox's rail uses the same database, and is not checked where that fails.
            if one.get("error") and (name != "rail" or report["status"] != "unhealthy"):
                names.setdefault(one["error"], []).append(name)
        wrong = [f"{', '.join(found)}: {error}" for error, found in names.items()]
        return _steady("; ".join([report["status"], *wrong]))

    def _health_under(self, heading: str) -> str:
        """On a busy machine any check may time out once, so it is repeated until it matches the page."""
        ends_at_s = time.monotonic() + HEALTH_PATIENCE_S
        while f"health:      {(said := self.health())}" not in quoted(heading) and time.monotonic() < ends_at_s:
            time.sleep(0.3)
        return said

    def wait_for_health(self, *words: str) -> None:
        wait_until(lambda: all(each in self.health() for each in words), f"health says {words}")

    def logged(self, words: str) -> str:
        """The next such line of the log, with its level, after the last experiment."""
        found: list[str] = []

        def is_said() -> bool:
            new = self.service.installation.said[self._heard_count :]
            found.extend(line for line in new if f'"event":"{words}"' in line)
            return bool(found)

        wait_until(is_said, f"the log says {words}")
        return f"the log:     {_LEVEL.findall(found[0])[0]}: {words}"

    def check(self, heading: str, seen: list[str]) -> None:
        """The messages match the page, and the refused requests succeed when repeated."""
        again = self.service.insist(self.account, "POST", "/v1/connect/transfer/key", self._last)
        assert again.status == 200, again
        self.service.settle([self.account])
        self.wait_for_health("healthy")
        self._heard_count = len(self.service.installation.said)
        assert seen == quoted(heading), "\n".join(["", heading, *seen])

    def _ask(self, method: str, path: str, body: object = None) -> httpx2.Response:
        return self._http.request(method, path, json=body, headers={"Authorization": f"Bearer {self._token}"})

    def _log_in(self) -> httpx2.Response:
        form = dict(grant_type="client_credentials", client_id=self.account.client_id, client_secret=self.account.client_secret)
        return self._http.post("/v1/iam/users/login", data=form)


def told(answer: httpx2.Response) -> str:
    """Status, code, Retry-After, and message."""
    error = answer.json().get("error")
    if error is None:
        return str(answer.status_code)
    words = [str(answer.status_code), error["code"]]
    if "retry-after" in answer.headers:
        words.append(f"(Retry-After: {answer.headers['retry-after']})")
    return _steady(f"{' '.join(words)} {error['message']}")


def _steady(said: str) -> str:
    """Without varying figures."""
    return _OFF.sub("-3600.0", _SPAN.sub("60", said))


@pytest.fixture(scope="module")
def broken() -> Iterator[Broken]:
    with ExitStack() as ended:
        server, runner = ended.enter_context(server_on_small_disk())
        addresses = dict(database_url=server.login_url, owner_database_url=server.owner_url)
        service = ended.enter_context(open_whole_installation(**addresses))
        one = Broken(service, server, runner)
        ended.callback(one.close)
        yield one


def test_the_database_is_away(broken: Broken) -> None:
    broken.runner.run(broken.server.stop())
    broken.wait_for_health("unhealthy")
    seen = [*broken.see("The database is away"), broken.logged(NO_ANSWER)]
    broken.runner.run(broken.server.start())
    broken.check("The database is away", seen)


def test_the_database_stands_still(broken: Broken) -> None:
    assert broken.server.process is not None
    pid = broken.server.process.pid
    with standing_still(pid, *descendants(pid)):
        broken.wait_for_health("unhealthy")
        seen = [*broken.see("The database stands still, or is slow"), broken.logged(NO_ANSWER)]
    broken.check("The database stands still, or is slow", seen)


@pytest.mark.parametrize(
    ("heading", "change", "undo", "words"),
    [
        ("The database has no connection left", "connection limit 0", "connection limit -1", "unhealthy"),
        (
            "The database only reads",
            "set default_transaction_read_only = on",
            "reset default_transaction_read_only",
            "only reads",
        ),
    ],
)
def test_the_database_refuses(broken: Broken, heading: str, change: str, undo: str, words: str) -> None:
    end = f"select pg_terminate_backend(pid) from pg_stat_activity where usename = '{LOGIN_ROLE}'"
    for statement in (f"alter role {LOGIN_ROLE} {change}", end):
        execute(broken.server.owner_url, statement)
    broken.wait_for_health(words)
    # The sandbox's connections were ended too, and its directory is away until it has new ones.
    wait_until(lambda: "the directory" not in told(broken.move()), "the sandbox has met the database again")
    seen = [*broken.see(heading), broken.logged(NO_ANSWER)]
    for statement in (f"alter role {LOGIN_ROLE} {undo}", end):
        execute(broken.server.owner_url, statement)
    broken.check(heading, seen)


def test_the_disk_of_the_database_is_full(broken: Broken) -> None:
    if not is_on_small_disk(broken.server):
        pytest.skip("no small disk can be mounted here: what a full one does was not tried")
    filling = fill_disk(broken.server.data_folder.parent)
    wait_until(lambda: broken.move().status_code == 503, "the database wants room", every_s=0)
    broken.wait_for_health("disk is full")
    heading, words = ("The disk of the database is full", "the database's disk is full: nothing is written until there is room")
    seen = [*broken.see(heading), broken.logged(words)]
    filling.unlink()
    broken.check(heading, seen)


@pytest.mark.parametrize(
    ("heading", "part", "words"),
    [
        ("The rail does not answer", "sandbox", ["rail: no answer"]),
        ("No worker runs", "work", ["workers: ", "webhooks: ", "feed: "]),
    ],
)
def test_a_part_stands_still(broken: Broken, heading: str, part: str, words: list[str]) -> None:
    with standing_still(*broken.service.installation.children(part)):
        broken.move()
        broken.wait_for_health(*words)
        seen = broken.see(heading)
    broken.check(heading, seen)


def test_the_clock_of_a_machine_is_back_by_an_hour(broken: Broken) -> None:
    broken.service.set_clock_off("serve", -3600)
    broken.wait_for_health("clock")
    heading = "The clock of a machine is wrong"
    seen = [*broken.see(heading), broken.logged("the clock is wrong: nothing is written")]
    broken.service.set_clock_off("serve", 0)
    broken.check(heading, seen)


def test_the_secret_key_is_missing(broken: Broken) -> None:
    addresses = dict(database_url=broken.server.login_url, owner_database_url=broken.server.owner_url)
    seen: list[str] = []
    broken.move()
    with new_home() as home:
        for key in ("", _OTHER_KEY):
            for verb in ("serve", "work", "client create --holder-id 1"):
                ended = run_verb(home, *verb.split(), **addresses, **(dict(secret_key=key) if key else {}))
                said = _KID.sub("signing_key:KID", (ended.stderr or ended.stdout).strip().splitlines()[-1])
                seen.append(f"{verb}, {'another' if key else 'no'} key: exit status {ended.returncode}: {said}")
    broken.check("The secret key is missing", seen)


def test_the_books_are_right_in_the_end(broken: Broken) -> None:
    broken.service.check_books()
