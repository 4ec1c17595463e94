"""Alerts fire by their real causes and end: Prometheus scrapes a live installation with an account at a bank.

Both are whole installations, and faults are real: the institution's answers, processes, the database. Alerts that a
sandbox can cause are in ``test_alerts_fire_in_sandbox``. ``NOT_HERE`` lists those that cannot be caused here, with the
tests of their metrics.
"""

import asyncio
import os
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import pytest
from msgspec import Struct

from journeys import test_alerts_fire_in_sandbox, test_read_at_standby
from journeys.test_money_in import Both, Caller
from pixconnect.platform.local.embedded_postgres import EmbeddedPostgres
from scripts.pages.dashboard import list_queries
from support.account_at_face import KEY, LIVE, NAME, allow_transfers, insist, open_account, run
from support.installation import Installation, descendants, running, standing_still
from support.ports import reserved_pair, reserved_port
from support.prometheus import ROOT, find_program, read_alerts
from support.tls import Authority
from support.verbs import run_forked
from support.waiting import wait_until
from support.watching import Watching, remember_weeks, watching

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("alerts")]

HERE = {
    "NothingReceived", "AccountUnread", "AccountPaused", "MoneyLeftUnordered", "TokenRefused", "InstitutionThrottles",
    "ChargeUnanswered", "OrderUnanswered", "BalanceBelowQueue", "BooksBroken", "BooksUnproved",
    "PartDown", "SlotsUnheld", "DatabaseAway", "OrderWaitsForPerson", "CertificateEnds", "ClientCertificateEnded",
    "InstitutionCertificateEnds",
}  # fmt: skip
CALLERS_COUNT, REQUESTS_COUNT = 8, 2000
NOT_HERE = {
    "DayNotClosed": "tests/doors/worker/test_account_metrics.py",  # a midnight has to pass
    "BalanceDiffers": "tests/journeys/test_balances_there.py",  # ten minutes lie between two comparisons
    "WritesQueue": "promtool alone: fifty writes wait for five minutes on a machine that is overloaded for as long",
    "ClockDrifts": "promtool alone: the clock of the machine is everybody's",
    "DiskFills": "promtool alone: it is told by the node exporter",
    "DiskFull": "tests/journeys/test_failures.py",
    "ClockWrong": "tests/journeys/test_failures.py",
}


class Watched(Struct, frozen=True, kw_only=True):
    two: Both
    seen: Watching
    caller: Caller
    authority: Authority

    def fail(self, effect: str, operation: str, *more: str) -> None:
        run(self.two.bank, "faults", "add", effect, "--operation", operation, *more, "--json")

    def mend(self) -> None:
        run(self.two.bank, "faults", "clear")

    def open_charge(self, number: int) -> None:
        body = {"calendario": {"expiracao": 3600}, "valor": {"original": "10.00"}, "chave": KEY}
        self.caller.insist("PUT", f"/v2/cob/alert{number:027}", body, accept=(200, 201))

    def receive(self, cents: int) -> str:
        return run(self.two.bank, "receive", "--amount", str(cents), "--json")["end_to_end_id"]

    def wait_until_read(self, end_to_end_id: str) -> None:
        def is_read() -> bool:
            listed = self.caller.insist("GET", f"/v1/connect/transfer/end-to-end-id/{end_to_end_id}", accept=(200, 404))
            return "end_to_end_id" in listed

        wait_until(is_read, "what came in is in the books")

    def give_back(self, end_to_end_id: str, cents: int) -> None:
        body = dict(end_to_end_id=end_to_end_id, amount=cents, external_id=f"back-{end_to_end_id}")
        self.caller.insist("POST", "/v1/connect/refund", body)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    find_program("prometheus")
    folder: Path = tmp_path_factory.mktemp("alerts")
    # A test's certificate is valid for a day.
    authority = Authority(folder)
    authority.server_context("localhost")
    files = dict.fromkeys(("TLS_CERTIFICATE_FILE", "TLS_KEY_FILE"), str(folder / "localhost-0.pem"))
    settings = LIVE | files | dict(TLS_AUTHORITY_FILE=str(folder / "ca.pem"), API_PROCESSES_COUNT="1")
    with (
        running(folder / "bank", FACES="inter:0", FACE_ANSWERS="inter.approval=person") as bank,
        reserved_port() as port,
        reserved_port() as tls_port,
        reserved_pair() as metrics,
        Installation(
            folder / "live", PORT=str(port), TLS_PORT=str(tls_port), METRICS_PORT=str(metrics), **settings
        ).wait_until_ready() as live,
    ):
        two = Both(bank=bank, live=live, url=f"http://127.0.0.1:{port}", folder=folder)
        open_account(bank, live, folder, "inter", 10_000_000)
        scopes = (
            "transfer.read", "transfer.write", "refund.read", "refund.write", "cob.read", "cob.write", "ledger.read",
        )  # fmt: skip
        caller = Caller(two, *scopes)
        (folder / "watching").mkdir()
        weeks = remember_weeks(f'pixconnect:received:1h{{institution="{NAME}"}}', 12)
        with watching(folder / "watching", {"work": [metrics], "serve": [metrics + 1]}, weeks) as seen:
            yield Watched(two=two, seen=seen, caller=caller, authority=authority)


@pytest.mark.each_change
def test_each_alert_is_here_or_says_why_not() -> None:
    caused = [*HERE, *test_alerts_fire_in_sandbox.HERE, test_read_at_standby.ALERT]
    assert sorted([*caused, *NOT_HERE]) == sorted(read_alerts())
    guide = " ".join((ROOT / "docs" / "guides" / "production.md").read_text(encoding="utf-8").split())
    assert f"{len(caused)} of these alerts fire by their cause" in guide
    assert all(f"`{name}`" in guide for name in NOT_HERE)
    for why in NOT_HERE.values():
        assert why.startswith("promtool alone: ") or (ROOT / why).is_file()


def test_an_hour_in_which_money_used_to_come_and_none_does_is_told_until_a_pix_comes(watched: Watched) -> None:
    watched.seen.wait_until_firing("NothingReceived", institution=NAME)
    watched.receive(300_000)
    watched.seen.wait_until_quiet("NothingReceived")


def test_books_that_nobody_proves_are_told_until_somebody_does(watched: Watched) -> None:
    watched.seen.wait_until_firing("BooksUnproved")
    insist(watched.two.live, "verify", "--whole", "--again-after-s", "0")
    watched.seen.wait_until_quiet("BooksUnproved")


def test_a_cent_that_somebody_wrote_by_hand_is_told_until_it_is_gone(watched: Watched) -> None:
    live = watched.two.live
    for cents, alert in ((1, watched.seen.wait_until_firing), (-1, watched.seen.wait_until_quiet)):
        asyncio.run(_write_by_hand(live, cents))
        found = run_forked(("verify", "--whole", "--again-after-s", "0"), live.environment)
        assert found.returncode == (7 if cents > 0 else 0), found.stdout
        alert("BooksBroken", rule="settlement_is_what_moved")


async def _write_by_hand(live: Installation, cents: int) -> None:
    """As a superuser, without triggers."""
    connection = await asyncpg.connect(EmbeddedPostgres(live.home, connections_max=50).owner_url)
    more = "available_cents = available_cents + $1, settlement_cents = settlement_cents - $1"
    try:
        await connection.execute("set session_replication_role = replica")
        await connection.execute(f"update pixconnect.balance set {more}", cents)
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("fault", "alert"),
    [("no_answer", "AccountUnread"), ("token_ended", "TokenRefused"), ("too_many:1", "InstitutionThrottles")],
)
def test_an_institution_that_cannot_be_read_is_reported_until_it_can(watched: Watched, fault: str, alert: str) -> None:
    watched.fail(fault, "face_read")
    watched.seen.wait_until_firing(alert, institution=NAME)
    watched.mend()
    watched.seen.wait_until_quiet(alert)


def test_a_charge_that_nobody_answers_is_told_until_it_is_opened(watched: Watched) -> None:
    watched.fail("no_answer", "face_write")
    watched.fail("unavailable", "face_read")
    # The request's outcome is unknown, so it is repeated.
    with ThreadPoolExecutor(1) as caller:
        opened = caller.submit(watched.open_charge, 1)
        watched.seen.wait_until_firing("ChargeUnanswered", institution=NAME)
        watched.mend()
        opened.result()
    watched.seen.wait_until_quiet("ChargeUnanswered")


def test_a_refund_of_which_nobody_can_say_how_it_ended_is_told_until_somebody_can(watched: Watched) -> None:
    received = watched.receive(5000)
    watched.fail("no_answer", "face_write", "--times", "1")
    watched.wait_until_read(received)
    watched.fail("unavailable", "face_read")
    watched.give_back(received, 1000)
    watched.seen.wait_until_firing("OrderUnanswered", kind="refund")
    watched.mend()
    watched.seen.wait_until_quiet("OrderUnanswered")


def test_an_account_that_somebody_has_paused_is_told_until_it_is_resumed(watched: Watched) -> None:
    insist(watched.two.live, "institution", "pause", NAME)
    watched.seen.wait_until_firing("AccountPaused", institution=NAME, reason="operator")
    insist(watched.two.live, "institution", "resume", NAME)
    watched.seen.wait_until_quiet("AccountPaused")


def test_what_is_there_is_told_to_be_less_than_what_is_to_leave(watched: Watched) -> None:
    received = watched.receive(50_000)
    watched.wait_until_read(received)
    watched.fail("too_many:1", "face_write")
    watched.give_back(received, 40_000)
    # A person pays at the bank.
    there_cents = run(watched.two.bank, "balance", "--json")["current_funds"]
    run(watched.two.bank, "transfer", "create", str(there_cents - 10_000), "settle@sandbox.pix.example", "--json")
    watched.seen.wait_until_firing("BalanceBelowQueue", institution=NAME)
    run(watched.two.bank, "deposit", str(there_cents), "--json")
    watched.seen.wait_until_quiet("BalanceBelowQueue")
    watched.mend()


def test_a_worker_that_stands_still_is_told_until_it_goes_on(watched: Watched) -> None:
    (pid,) = watched.two.live.children("work")
    with standing_still(pid):
        watched.seen.wait_until_firing("PartDown", part="work")
        watched.seen.wait_until_firing("SlotsUnheld")
    watched.seen.wait_until_quiet("PartDown")
    watched.seen.wait_until_quiet("SlotsUnheld")


def test_a_database_that_stands_still_is_told_until_it_goes_on(watched: Watched) -> None:
    server = watched.two.live.database_pid
    # The server first, so that it starts no process that goes on.
    with standing_still(server), standing_still(*descendants(server)):
        watched.seen.wait_until_firing("DatabaseAway")
        assert not [name for name in ("DatabaseForgot", "ClockWrong", "SlotsUnheld") if watched.seen.is_firing(name)]
    watched.seen.wait_until_quiet("DatabaseAway")


def test_money_that_leaves_as_by_theft_is_told_until_an_operator_has_looked(watched: Watched) -> None:
    # The bank's client has a million reais there, so half of it is no such sum.
    file = watched.two.folder / "inter.toml"
    file.write_text(f"{file.read_text()}\n[options]\nalarms = true\ndrain_percent = 1\n")
    insist(watched.two.live, "institution", "rotate", NAME, "--file", str(file))
    received = watched.receive(5_000_000)
    watched.wait_until_read(received)
    watched.give_back(received, 4_000_000)
    watched.seen.wait_until_firing("MoneyLeftUnordered", institution=NAME, reason="drain")
    insist(watched.two.live, "institution", "resume", NAME)
    watched.seen.wait_until_quiet("MoneyLeftUnordered")


def test_a_transfer_that_somebody_has_to_approve_there_is_told_until_somebody_does(watched: Watched) -> None:
    live, bank = watched.two.live, watched.two.bank
    allow_transfers(live)
    # The approving person waits half a minute.
    run(bank, "faults", "add", "delay:30000", "--operation", "submit", "--times", "1", "--json")
    body = dict(amount=4321, key="settle@sandbox.pix.example", key_type="EMAIL", external_id="to-approve")
    watched.caller.insist("POST", "/v1/connect/transfer/key", body)
    watched.seen.wait_until_firing("OrderWaitsForPerson", institution=NAME)
    watched.seen.wait_until_quiet("OrderWaitsForPerson")


def test_our_own_certificate_that_ends_is_told_until_there_is_another(watched: Watched) -> None:
    watched.seen.wait_until_firing("CertificateEnds", used_for="PIXCONNECT_TLS_PORT")
    watched.authority.server_context("localhost", days=90)
    # A process reads it at its start.
    for pid in watched.two.live.children("serve"):
        os.kill(pid, signal.SIGKILL)
    watched.seen.wait_until_quiet("CertificateEnds")


def test_a_clients_certificate_that_has_ended_is_told_until_it_has_another(watched: Watched) -> None:
    live, folder = watched.two.live, watched.two.folder
    made = run(live, "client", "create", "--holder-id", "1", "--scope", "charge.read", "--json")
    for days_ago, alert in ((10, watched.seen.wait_until_firing), (0, watched.seen.wait_until_quiet)):
        watched.authority.server_context("shop", days_ago=days_ago)
        file = folder / f"shop-{days_ago}.pem"
        run(live, "client", "certificate", made["client_id"], "--file", str(file), "--json")
        alert("ClientCertificateEnded")


def test_an_authority_of_an_institutions_that_ends_is_told_until_it_is_out_of_the_file(watched: Watched) -> None:
    file, folder = watched.two.folder / "inter.toml", watched.two.folder
    said = file.read_text()
    (named,) = re.findall(r'^ca_file = "(.*)"$', said, re.MULTILINE)
    both = folder / "authorities.pem"
    both.write_text((folder / "ca.pem").read_text() + Path(named).read_text())
    file.write_text(said.replace(named, str(both)))
    insist(watched.two.live, "institution", "rotate", NAME, "--file", str(file))
    watched.seen.wait_until_firing("InstitutionCertificateEnds", institution=NAME)
    file.write_text(said)
    insist(watched.two.live, "institution", "rotate", NAME, "--file", str(file))
    watched.seen.wait_until_quiet("InstitutionCertificateEnds")


def test_each_query_of_the_dashboard_has_answered_something_under_load(watched: Watched) -> None:
    """After all of the above, when rare events have happened."""
    with ThreadPoolExecutor(CALLERS_COUNT) as callers:
        # Without those that call the institution, which limits questions.
        list(callers.map(lambda _: watched.caller.insist("GET", "/v1/connect/balance"), range(REQUESTS_COUNT)))
    wait_until(
        lambda: not [query for query in list_queries() if not watched.seen.has_answered(query)],
        "each query has answered something",
    )
