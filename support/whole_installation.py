"""An installation whose processes can be killed at any point, its holders, and both sides of its money from PostgreSQL."""

import asyncio
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import httpx2
from msgspec import Struct

from pixconnect.assembly import base
from pixconnect.doors.cli.failures import ExitStatus
from pixconnect.features.identity.service import access as access_usecases
from pixconnect.features.proof.service.verify import RULES
from pixconnect.features.proof.tables.reports import ITEMS
from pixconnect.kernel.flows import holder as holder_usecases
from pixconnect.kernel.flows.context import Operator
from pixconnect.kernel.rules.access import SCOPES
from pixconnect.kernel.rules.event import EVENT_NAMES
from pixconnect.platform.adapters.secret_box import AesSecretBox, read_secret_key
from pixconnect.platform.adapters.system import SystemClock, SystemEntropy
from pixconnect.platform.config import Settings
from pixconnect.platform.pool import open_pool
from support import postgres
from support.books import find_wrong
from support.both_sides import Seen, Thing, read_both_sides, read_things
from support.chaos.history import Entry
from support.installation import Installation, run_verb
from support.killed_process import ABILITIES_FILE_NAME, CLOCKS_FOLDER_NAME, SITE_FOLDER, KillPoints, change_policy
from support.listener import Listener
from support.records import a_new_holder
from support.waiting import PATIENCE_S, wait_until

ADVANCED_WHILE_WAITING_S = 15
ADVANCED_WHILE_WAITING_MAX_S = 3600
LOOKS_OF_SMALL_STEPS = 60
# Nothing announces expiring charges and lots, and a restarted worker may not have looked yet.
_IS_ANYTHING_DUE = """
select exists (select from pixconnect.charge where status = 'PENDING' and expires_at <= now())
    or exists (select from pixconnect.lot_request)
"""
_AWAY = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, TimeoutError)

Answered = TypeVar("Answered")

_SINCE, _UNTIL = "2020-01-01T00:00:00Z", "2099-12-31T23:59:59Z"


class Answer(Struct, frozen=True, kw_only=True):
    status: int
    body: dict[str, Any]

    @property
    def code(self) -> str:
        return self.body["error"]["code"]

    @property
    def data(self) -> Any:
        return self.body["data"]


class Account(Struct, frozen=True, kw_only=True):
    """A holder with a key. It receives every event, and every Pix by the key's webhook."""

    holder_id: int
    key: str
    client_id: str
    client_secret: str


class WholeInstallation:
    """Drives one installation over HTTP, and reads both sides' tables."""

    def __init__(self, installation: Installation, runner: asyncio.Runner) -> None:
        self.installation = installation
        self.points = KillPoints(installation.home)
        self.listener = Listener()
        self.longest_walk_s = 0.0
        self._runner = runner
        self._http = httpx2.Client(base_url=installation.base_url, timeout=60, trust_env=False)
        self._tokens: dict[int, str] = {}
        self._numbers = count(1)
        self._connection: asyncpg.Connection | None = None
        self._reading = threading.Thread(target=_drain, args=(installation,), daemon=True)
        self._reading.start()

    def stop(self) -> None:
        self.installation.process.terminate()
        self.installation.process.wait(120)
        self._reading.join(60)

    def close(self) -> None:
        self._http.close()
        self.listener.close()
        self._forget_connection()

    def open_account(self, funds_cents: int = 0) -> Account:
        number = next(self._numbers)
        account = self._runner.run(self._make_account(f"7{number:06d}", f"holder-{number}@prove.example"))
        hook = {
            "url": f"{self.listener.url}/{account.holder_id}",
            "secret": "s" * 16,
            "event_types": sorted(EVENT_NAMES),
        }
        assert self.insist(account, "POST", "/v1/webhook/endpoints", hook).status == 200
        told_at = {"webhookUrl": hook["url"]}
        assert self.insist(account, "PUT", f"/v2/webhook/{account.key}", told_at).status == 200
        if funds_cents:
            assert self.insist(account, "POST", "/sandbox/v1/deposits", {"amount": funds_cents}).status == 200
        return account

    def ask(self, account: Account, method: str, path: str, body: object = None, *, timeout_s: float = 60) -> Answer | None:
        try:
            if account.holder_id not in self._tokens:
                self._tokens[account.holder_id] = self.log_in(account)
            token = self._tokens[account.holder_id]
            headers = {"Authorization": f"Bearer {token}"}
            response = self._http.request(method, path, json=body, headers=headers, timeout=timeout_s)
        except (httpx2.TransportError, _NoTokenError):
            return None
        if response.status_code == 401:
            del self._tokens[account.holder_id]
            return self.ask(account, method, path, body, timeout_s=timeout_s)
        assert response.status_code != 500, (path, body, self.complaints())
        return Answer(status=response.status_code, body=response.json() if response.content else {})

    def insist(self, account: Account, method: str, path: str, body: object = None, *, until_done: bool = True) -> Answer:
        """Repeat a request under one ``external_id`` until it is answered; ``until_done`` also repeats it after 503."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            answer = self.ask(account, method, path, body)
            if answer is not None and answer.status != 504 and not (until_done and answer.status == 503):
                return answer
            until_done = True  # An unanswered request may have taken effect, so a later 503 proves nothing.
            assert time.monotonic() < deadline_s, f"{method} {path} {body}: {answer}"
            time.sleep(0.1)

    def complaints(self) -> str:
        """The installation's log lines about things that must not happen."""
        time.sleep(0.2)  # until it has been read
        return "".join(line for line in self.installation.said[-200:] if '"level":"error"' in line or "critical" in line)

    def see(self, accounts: Sequence[Account]) -> Seen:
        """Both sides of these holders' money, at one instant."""
        keys = {account.holder_id: account.key for account in accounts}
        return self._read(lambda connection: read_both_sides(connection, keys))

    def read_things(self, accounts: Sequence[Account]) -> list[Thing]:
        """These holders' charges, transfers and refunds, if the other side is another installation."""
        return self._read(lambda connection: read_things(connection, [account.holder_id for account in accounts]))

    def read_entries(self, accounts: Sequence[Account]) -> list[Entry]:
        """These holders' numbered entries, for judging a history."""
        query = """
            select holder_id, number, running_balance_cents as running_cents, cause_kind, cause_id, case
                when credit_account in ('available', 'reserved', 'blocked') then amount_cents else -amount_cents
            end as change_cents
            from ledger_entry where number is not null and holder_id = any($1::bigint[])
        """
        holder_ids = [account.holder_id for account in accounts]
        rows = self._read(lambda connection: connection.fetch(query, holder_ids))
        return [Entry(**dict(row)) for row in rows]

    def read_kept(self) -> list[str]:
        """Reports that wait for an operator, except those of payments that would have been returned."""
        query = """
            select format('a %s of %s: %s', kind, name, explanation) as said from kept_report
            where closed_at is null and reason <> 'cannot_be_returned' order by id
        """
        return [row["said"] for row in self._read(lambda connection: connection.fetch(query))]

    def fetchval(self, query: str) -> Any:
        return self._read(lambda connection: connection.fetchval(query))

    def settle(self, accounts: Sequence[Account], patience_s: float = PATIENCE_S) -> Seen:
        """Clear all faults and let time pass until nothing is under way, and every killed process is back."""
        self.insist(accounts[0], "DELETE", "/sandbox/v1/faults")
        deadline_s = time.monotonic() + patience_s
        looked_count = 0
        advance_s = ADVANCED_WHILE_WAITING_S
        while True:
            # Requested before the books are read, because their expiry can happen in between.
            is_anything_due = self.fetchval(_IS_ANYTHING_DUE)
            seen = self.see(accounts)
            if seen.is_at_rest and not is_anything_due and not self._list_missing():
                return seen
            if time.monotonic() > deadline_s:
                due = ["something is due"] if is_anything_due else []
                unrest = [*seen.list_unrest(), *due, *self._list_missing()]
                raise AssertionError(f"it never comes to rest: {unrest} {self.installation.said[-9:]}")
            looked_count += 1
            if looked_count % 5 == 0:
                self._close_reports()
                self.advance_clock(accounts[0], advance_s)
                # An order that the rail never took and that outlived a restart of the database fails once the network
                # refuses it, half a day after it was made.
                if looked_count > LOOKS_OF_SMALL_STEPS:
                    advance_s = min(advance_s * 3 // 2, ADVANCED_WHILE_WAITING_MAX_S)
            time.sleep(0.05)

    def _close_reports(self) -> None:
        """Resolve, as a person does, payments that would have been returned but repaid debts: health waits for that."""
        with suppress(*_AWAY):  # the killed process may be the database
            postgres.execute(
                self._running()["owner_database_url"],
                "update pixconnect.kept_report set closed_at = now(), closed_by = 'tests', close_reason = 'agreed upon'"
                " where reason = 'cannot_be_returned' and closed_at is null",
            )

    def advance_clock(self, account: Account, seconds: int) -> None:
        began_s = time.monotonic()
        self.insist(account, "POST", "/sandbox/v1/clock", {"advance_s": seconds})
        self.longest_walk_s = max(self.longest_walk_s, time.monotonic() - began_s)

    def let_charges_fall_due(self, account: Account) -> None:
        """Move an account's charges to their deadline: walking the clock in steps would leave none to the worker."""
        postgres.execute(
            self._running()["owner_database_url"],
            f"update pixconnect.charge set expires_at = now() where status = 'PENDING' and due_on is null"
            f" and holder_id = {account.holder_id}",
        )

    def damage(self, statements: Sequence[str]) -> None:
        """Write into the tables as a superuser, with every trigger off."""
        postgres.execute(
            self._running()["owner_database_url"],
            ";".join(("set search_path = pixconnect", "set session_replication_role = replica", *statements)),
        )

    def wait_until_killed(self, account: Account, *points: str) -> None:
        """Let time pass until a process has died at each of these points."""
        deadline_s = time.monotonic() + PATIENCE_S
        looked_count = 0
        while missing := [point for point in points if not self.points.has_killed(point)]:
            assert time.monotonic() < deadline_s, f"no process came to {missing}"
            looked_count += 1
            if looked_count % 50 == 0:
                self.advance_clock(account, ADVANCED_WHILE_WAITING_S)
            time.sleep(0.02)

    def wait_until_accepted(self, account: Account) -> None:
        """Wait until the rail's other side has our confirmation of the first of two steps of a payment."""
        query = f"""
            select exists (
                select from transfer join sandbox.arrival on arrival.id = end_to_end_id
                where holder_id = {account.holder_id} and status = 'PROCESSING' and arrival.is_open and next_report is null
            )
        """
        wait_until(lambda: self.fetchval(query), "no payment is accepted")

    def kill(self, part: str) -> None:
        """Kill one process of a part, or ``database``, as kill -9 does; it is restarted."""
        with suppress(ProcessLookupError, AssertionError, FileNotFoundError):  # it is dead already
            found = self.installation
            os.kill(found.database_pid if part == "database" else min(found.children(part)), signal.SIGKILL)

    def set_clock_off(self, part: str, seconds: int) -> None:
        """Restart a part's processes with their clock off by so much."""
        folder = self.installation.home / CLOCKS_FOLDER_NAME
        folder.mkdir(exist_ok=True)
        (folder / part).write_text(str(seconds))
        before = self._pids(part)
        for pid in before:
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: (now := self._pids(part)) and not now & before, f"{part} does not come back")

    def _pids(self, part: str) -> set[int]:
        with suppress(AssertionError):  # there is none just now
            return set(self.installation.children(part))
        return set()

    def check_books(self, *, is_rail_true: bool = True) -> None:
        """Check the rules in the tables, and beside the rail unless a test renames or invents the rail's answers."""
        wrong = self._read(find_wrong)
        assert not wrong, wrong
        # Left out of the check, because a finding would keep the service unhealthy.
        others = [option for rule in RULES if rule is not ITEMS for option in ("--rule", rule.name)]
        extent = ["--whole"] if is_rail_true else others
        verified = run_verb(self.installation.home, "verify", *extent, "--again-after-s", "2", "--json")
        assert verified.returncode in (ExitStatus.DONE, ExitStatus.BROKEN), verified.stderr
        found = json.loads(verified.stdout)["findings"]
        assert not found, found

    def check_heard(self, accounts: Sequence[Account]) -> None:
        """Every event was delivered, and every Pix by its key's webhook."""
        self.check_events(accounts)
        for account in accounts:
            self._check_told(account)

    def check_events(self, accounts: Sequence[Account]) -> None:
        """Every event was delivered with the same bytes, and first in order for each resource."""
        for account in accounts:
            rows = self._read(
                lambda connection, account=account: connection.fetch(
                    "select id, body, resource, resource_id from event where holder_id = $1 order by id", account.holder_id
                )
            )
            heard = self.listener.heard.get(account.holder_id, [])
            made = {(row["id"], row["body"].encode()) for row in rows}
            assert set(heard) == made, set(heard) ^ made
            first = {event_id: place for place, (event_id, _) in reversed(list(enumerate(heard)))}
            last_place: dict[tuple[str, int], int] = {}
            for row in rows:
                resource = row["resource"], row["resource_id"]
                assert first[row["id"]] > last_place.get(resource, -1), (resource, heard)
                last_place[resource] = first[row["id"]]

    def _check_told(self, account: Account) -> None:
        """The statement, the central bank's API and the key's webhook agree on the received payments."""
        path = f"/v2/pix?inicio={_SINCE}&fim={_UNTIL}&paginacao.itensPorPagina=1000"
        received = {pix["endToEndId"]: pix for pix in self.insist(account, "GET", path).body["pix"]}
        path = f"/v1/connect/ledger/statement?initial_date={_SINCE}&final_date={_UNTIL}"
        booked: dict[str, Counter[str]] = {}
        for line in self.insist(account, "GET", path).data["lines"]:
            is_refund = line.get("return_identification") is not None
            if "end_to_end_id" in line and line["impact_type"] == ("OUT" if is_refund else "IN"):
                booked.setdefault(line["end_to_end_id"], Counter())["refunds" if is_refund else "pix"] += line["amount"]
        # A returned payment that was spent already is a debt without a line; its repayment is a line.
        owed = """
            select original_end_to_end_id as name, entry.amount_cents from ledger_entry as entry
            join refund on cause_kind = 'refund' and refund.id = cause_id and refund.holder_id = entry.holder_id
            where entry.holder_id = $1 and debit_account = 'deficit'
        """
        for row in self._read(lambda connection: connection.fetch(owed, account.holder_id)):
            booked[row["name"]]["refunds"] += row["amount_cents"]
        shown = {name: _sum_up(pix) for name, pix in received.items()}
        moved = {name: sums for name, sums in booked.items() if sums["pix"]}
        names = moved.keys() | shown.keys()
        differing = {name: (moved.get(name), shown.get(name)) for name in names if moved.get(name) != shown.get(name)}
        assert not differing, differing
        told: dict[str, list[dict[str, Any]]] = {}
        for pix in self.listener.told.get(account.holder_id, []):
            seen = told.setdefault(pix["endToEndId"], [])
            # A body that was sent and not recorded is sent again.
            if pix not in seen:
                seen.append(pix)
        by_key = {name: pix for name, pix in received.items() if pix.get("chave") == account.key}
        assert told.keys() == by_key.keys(), told.keys() ^ by_key.keys()
        for name, pix in by_key.items():
            assert _unnamed(told[name][-1]) == _unnamed(pix), (told[name], pix)

    def _list_missing(self) -> list[str]:
        """The parts that are not at work now; the health check does not cover workers."""
        asked = "select count(*) from pg_stat_activity where application_name = 'pixconnect leases'"
        health = self.installation.health_report()
        found = [] if health["status"] == "healthy" else [f"health: {health}"]
        return found if self.fetchval(asked) else [*found, "no worker"]

    def log_in(self, account: Account) -> str:
        form = {
            "grant_type": "client_credentials",
            "client_id": account.client_id,
            "client_secret": account.client_secret,
        }
        response = self._http.post("/v1/iam/users/login", data=form)
        if response.status_code != 200:
            raise _NoTokenError
        return response.json()["data"]["access_token"]

    def _read(self, read: Callable[[asyncpg.Connection], Awaitable[Answered]]) -> Answered:
        """Read from the database, repeatedly since it may be killed."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self._runner.run(self._try_to_read(read))
            except _AWAY:
                self._forget_connection()
                assert time.monotonic() < deadline_s, "the database does not come back"
                time.sleep(0.2)

    async def _try_to_read(self, read: Callable[[asyncpg.Connection], Awaitable[Answered]]) -> Answered:
        if self._connection is None:
            settings = {"search_path": "pixconnect"}
            url = self._running()["owner_database_url"]
            self._connection = await asyncpg.connect(url, server_settings=settings, timeout=30)
        async with self._connection.transaction(isolation="repeatable_read", readonly=True):
            return await read(self._connection)

    def _forget_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:

            async def end() -> None:
                connection.terminate()

            self._runner.run(end())

    async def _make_account(self, account_number: str, key: str) -> Account:
        running, entropy = self._running(), SystemEntropy()
        pool = await open_pool(
            running["owner_database_url"], role="pixconnect_operator", schema="pixconnect", connections_max=1,
            name="tests",
        )  # fmt: skip
        box = AesSecretBox(read_secret_key("", self.installation.home), entropy)
        policy = base.make_policy(Settings())
        operator = Operator(pool=pool, clock=SystemClock(), entropy=entropy, policy=policy, secret_box=box, operator="tests")
        try:
            new = a_new_holder(account_number=account_number)
            holder = await holder_usecases.create_holder(operator, new)
            await holder_usecases.add_pix_key(operator, holder.id, "EMAIL", key)
            issued = await access_usecases.create_client(operator, holder.id, "tests", SCOPES)
        finally:
            await pool.close()
        return Account(holder_id=holder.id, key=key, client_id=issued.client.client_id, client_secret=issued.client_secret)

    def _running(self) -> dict[str, str]:
        said = json.loads((self.installation.home / "running.json").read_text())
        # The address of an external server is only in the settings.
        given = self.installation.environment.get("PIXCONNECT_OWNER_DATABASE_URL")
        return said if given is None else said | {"owner_database_url": given}


def _sum_up(pix: dict[str, Any]) -> Counter[str]:
    """The cents of a Pix, and of its settled refunds."""
    refunds = [refund for refund in pix.get("devolucoes", []) if refund["status"] == "DEVOLVIDO"]
    sums = Counter(pix=_cents_of(pix))
    sums.update(refunds=sum(map(_cents_of, refunds)))
    return sums


def _unnamed(pix: dict[str, Any]) -> dict[str, Any]:
    """Without the ids of its refunds, which some rails return late."""
    return pix | {"devolucoes": [refund | {"rtrId": None} for refund in pix.get("devolucoes", [])]}


def _cents_of(shown: dict[str, Any]) -> int:
    return int(shown["valor"].replace(".", ""))


class _NoTokenError(Exception):
    """The identity service cannot be asked."""


def _drain(installation: Installation) -> None:
    """Read the installation's output, so that it never blocks."""
    assert installation.process.stdout is not None
    with suppress(ValueError):  # closed at the end
        for line in installation.process.stdout:
            installation.said.append(line)


@contextmanager
def open_whole_installation(
    abilities: Mapping[str, bool] | None = None,
    *,
    home: Path | None = None,
    source: Path | None = None,
    policy: Mapping[str, int] | None = None,
    **settings: str,
) -> Iterator[WholeInstallation]:
    """A ready installation with kill points, on a new home or the given one; stopped and removed afterwards.

    It has the rail's ``abilities``, changed settings of ``Policy``, and the program in ``source``, if they are given.
    """
    home = home or Path(tempfile.mkdtemp(prefix="pixconnect-home-"))
    if abilities is not None:
        (home / ABILITIES_FILE_NAME).write_text(json.dumps(abilities))
    home.chmod(0o711)  # as root, the server's user must be able to enter
    path = os.pathsep.join(str(folder) for folder in (source, SITE_FOLDER) if folder is not None)
    command = ("env", f"PYTHONPATH={path}", sys.executable, "-P", "-m", "pixconnect", "run")
    change_policy(home, **{"token_lifetime_s": 86_400} | dict(policy or {}))
    given = {"api_processes_count": "1"} | settings
    with Installation(home, command, **given) as installation, asyncio.Runner() as runner:
        service = WholeInstallation(installation.wait_until_ready(), runner)
        try:
            yield service
        finally:
            service.close()
            service.stop()
            postgres.remove_home(home)
