"""The guide's blocks that archive a server's log and restore an instant, with an institution that is ahead of the books.

A live service with its database on a separate server; the bank is another installation, which is not restored.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import pytest

from journeys.test_money_in import Both
from journeys.test_refunds_there import Refunds
from journeys.test_transfers_there import Transfers
from pixconnect.platform.config import POSTGRES_NEWEST
from pixconnect.platform.local import postgres_placement
from support.account_at_face import LIVE, allow_transfers, open_account, run
from support.home import SECRET_KEY, new_home
from support.installation import ROOT, Installation, running
from support.ports import reserved_port
from support.production_guide import blocks, prepared_server, settings_on
from support.waiting import wait_until

pytestmark = [pytest.mark.journey, pytest.mark.long]
Found = TypeVar("Found")

GUIDE = (ROOT / "docs" / "guides" / "back-up-and-restore.md").read_text(encoding="utf-8")
(LET_IN,) = blocks("sql", GUIDE)
VERIFY = 'pg_verifybackup --quiet "$BACKUP/base-new"'
KEEP_LOG, COPY, RESTORE, LOOK, RECOVERED, *_ = blocks("sh", GUIDE)
RECEIVED_CENTS, BEFORE_CENTS, FORGOTTEN_CENTS, LATER_CENTS = 10_000, 100, 200, 300
SENT_CENTS, FORGOTTEN_SENT_CENTS = 110, 220
_KEPT = "select flush_lsn >= pg_current_wal_flush_lsn() from pg_stat_replication where application_name = 'pixconnect_log'"
_SETTINGS = ("database_url", "owner_database_url", "operator_database_url", "console_database_url")


class Keeper:
    """The owner of the copies: PostgreSQL's system user, on this machine."""

    def __init__(self, folder: Path, server_url: str) -> None:
        self._user = postgres_placement.find_unprivileged_user() if os.geteuid() == 0 else None
        programs = postgres_placement.find_programs(POSTGRES_NEWEST)
        if self._user is not None:
            shutil.chown(folder, self._user.name)
            programs = postgres_placement.make_runnable(programs, self._user, folder)
        self._folder = folder
        self._environment = {
            "PATH": os.pathsep.join((str(programs / "bin"), os.environ["PATH"])),
            "BACKUP": str(folder),
            "BACKUP_URL": f"postgresql://pix_backup:change-me-4@/?{server_url.partition('?')[2]}",
            "RESTORED": str(folder / "restored"),
        }

    def can_verify(self) -> bool:
        """``pg_verifybackup`` of some wheels does not even print its version."""
        ran = self.start("pg_verifybackup --version")
        ran.communicate(timeout=60)
        return ran.returncode == 0

    def start(self, block: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["sh", "-euc", block],
            cwd=self._folder,
            env=self._environment | variables,
            user=None if self._user is None else self._user.uid,
            group=None if self._user is None else self._user.gid,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def end(self, process: subprocess.Popen[str]) -> None:
        """It would wait for its server for ever."""
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=60)

    def run(self, block: str, **variables: str) -> None:
        ran = self.start(block, **variables)
        said, _ = ran.communicate(timeout=300)
        assert ran.returncode == 0, said


@contextmanager
def live_on(home: Path, port: int, settings: Mapping[str, str]) -> Iterator[Installation]:
    """Our installation on a separate database, killed at the end."""
    addresses = {name: settings[f"PIXCONNECT_{name.upper()}"] for name in _SETTINGS}
    callbacks = f"http://127.0.0.1:{port}"
    with Installation(home, PORT=str(port), SECRET_KEY=SECRET_KEY, CALLBACK_BASE_URL=callbacks, **LIVE, **addresses) as live:
        yield live.wait_until_ready()


def listen_in(folder: Path) -> tuple[str, str]:
    """A restored server has its old settings, and would not start on an address that others use too."""
    return f"alter system set unix_socket_directories = '{folder}'", "alter system set listen_addresses = ''"


@asynccontextmanager
async def forgetting(
    folder: Path, face: str, live_on_it: Callable[[Both, Callable[[], Awaitable[None]]], Awaitable[Found]]
) -> AsyncIterator[tuple[Both, Found]]:
    """Live until the callback returns, and again on the database as it was when the callback called its second argument."""
    instants: list[str] = []
    with (
        new_home() as server_home,
        new_home() as copies,
        new_home() as home,
        running(folder / "bank", FACES=f"{face}:0") as bank,
        reserved_port() as port,
        ExitStack() as ended,
    ):
        async with prepared_server(server_home, durable=True) as (_, url):
            keeper = Keeper(copies, url)
            await execute(url, LET_IN, *listen_in(copies))
            fetching = keeper.start(KEEP_LOG)
            ended.callback(keeper.end, fetching)

            async def save() -> None:
                keeper.run(COPY if keeper.can_verify() else COPY.replace(VERIFY, ":"))
                instants.append(str(await fetch(url, "select now()")))

            with live_on(home, port, settings_on(url)) as live:
                two = Both(bank=bank, live=live, url=f"http://127.0.0.1:{port}", folder=folder)
                open_account(two.bank, two.live, two.folder, face)
                found = await live_on_it(two, save)
                live.kill()
            while not await fetch(url, _KEPT):  # noqa: ASYNC110  it is in the database
                await asyncio.sleep(0.1)
        ended.close()
        keeper.run(RESTORE, INSTANT=instants[0])
        try:
            with live_on(home, port, settings_on(f"postgresql://@/postgres?host={copies}")) as live:
                after = Both(bank=bank, live=live, url=two.url, folder=folder)
                look(after, LOOK)
                yield after, found
                wait_until(lambda: has_one_balance(after), "both books say the same")
                assert look(after, "pixconnect verify --whole --again-after-s 5")
        finally:
            keeper.run('pg_ctl --pgdata="$RESTORED" --mode=immediate --wait stop')


async def test_what_a_restored_database_has_forgotten_is_found_and_nothing_is_paid_twice(tmp_path: Path) -> None:
    async def live_on_it(two: Both, save: Callable[[], Awaitable[None]]) -> tuple[str, Refunds, Transfers]:
        received = receive(two, RECEIVED_CENTS)
        refunds, transfers = Refunds(two, received), Transfers(two)
        refunds.ask("before", BEFORE_CENTS)
        allow_transfers(two.live)
        transfers.ask("sent before", SENT_CENTS)
        wait_until(lambda: refunds.are_over(set()) and transfers.are_over(), "what was asked before has ended")
        await save()
        refunds.ask("forgotten", FORGOTTEN_CENTS)
        transfers.ask("sent and forgotten", FORGOTTEN_SENT_CENTS)
        wait_until(lambda: refunds.are_over(set()) and transfers.are_over(), "what will be forgotten has ended")
        receive(two, LATER_CENTS)
        return received, refunds, transfers

    async with forgetting(tmp_path, "inter", live_on_it) as (after, (received, refunds, transfers)):
        assert run(after.live, "database", "show", "--json")["forgotten_since"]
        shown = run(after.live, "institution", "show", "loja", "--json")
        assert (shown["state"], shown["paused_because"][:16]) == ("paused", "another timeline")
        wait_until(lambda: look(after, RECOVERED, may_fail=True), "everything was read")
        assert run(after.live, "institution", "show", "loja", "--json")["state"] == "active"
        again, sent_again = Refunds(after, received), Transfers(after)
        for asked, before in ((again, refunds), (sent_again, transfers)):
            for name, cents in before.cents.items():
                asked.ask(name, cents)
        wait_until(lambda: again.are_over(set()) and sent_again.are_over(), "what was asked for again has ended")
        assert again.read_there().keys() == {BEFORE_CENTS, FORGOTTEN_CENTS}
        assert sent_again.read_there().keys() == {SENT_CENTS, FORGOTTEN_SENT_CENTS}
        assert {each["status"] for each in sent_again.read_here().values()} == {"CONFIRMED"}


async def test_transfers_that_a_restored_database_has_forgotten_are_paid_once(tmp_path: Path) -> None:
    async def live_on_it(two: Both, save: Callable[[], Awaitable[None]]) -> Transfers:
        receive(two, RECEIVED_CENTS)
        run(two.live, "institution", "webhook", "set", "loja", "--json")
        allow_transfers(two.live)
        transfers = Transfers(two)
        transfers.ask("before", BEFORE_CENTS)
        wait_until(transfers.are_over, "the transfer of before has ended")
        await save()
        transfers.ask("forgotten", FORGOTTEN_CENTS)
        wait_until(transfers.are_over, "the transfer has ended that will be forgotten")
        # It may stop at any step.
        transfers.ask("under way", LATER_CENTS)
        return transfers

    async with forgetting(tmp_path, "efi", live_on_it) as (after, transfers):
        again = Transfers(after)
        assert "under no other" in again.read_refusal("forgotten", FORGOTTEN_CENTS)
        assert not look(after, "pixconnect institution resume loja", may_fail=True)
        # Efi's API has no statement: nothing continues without the operator's confirmation, however much was read.
        wait_until(lambda: look(after, f"{RECOVERED.strip()} --statement-was-read", may_fail=True), "everything was read")
        for name, cents in transfers.cents.items():
            again.ask(name, cents)
        wait_until(again.are_over, "what was asked for again has ended")
        assert {each["status"] for each in again.read_here().values()} == {"CONFIRMED"}
        assert again.read_there().keys() == {BEFORE_CENTS, FORGOTTEN_CENTS, LATER_CENTS}


def receive(two: Both, cents: int) -> str:
    name = run(two.bank, "receive", "--amount", str(cents), "--json")["end_to_end_id"]
    wait_until(lambda: has_one_balance(two), "what came in is in the books")
    return name


def has_one_balance(two: Both) -> bool:
    shown = run(two.live, "institution", "show", "loja", "--json")
    return shown["balance_here_cents"] == shown["balance_there_cents"]


def look(two: Both, block: str, *, may_fail: bool = False) -> bool:
    """Run a block as an operator does."""
    programs = postgres_placement.find_programs(POSTGRES_NEWEST) / "bin"
    path = os.pathsep.join((f"{sys.prefix}/bin", str(programs), os.environ["PATH"]))
    environment = two.live.environment | {"PATH": path}
    ran = subprocess.run(["sh", "-euc", block], env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert may_fail or ran.returncode == 0, ran.stdout + ran.stderr
    return ran.returncode == 0


async def execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    for statement in statements:
        await connection.execute(statement)
    await connection.close()


async def fetch(url: str, query: str) -> Any:
    connection = await asyncpg.connect(url)
    found = await connection.fetchval(query)
    await connection.close()
    return found
