"""The services whose database fails: one with the simulated network, and a live one with its money at a bank.

Both have their databases in the cluster, behind its proxy. The bank, a third installation, has a server that never
fails.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

from msgspec import Struct

from support.account_at_face import LIVE
from support.chaos.load import Book, Caller, Purse
from support.chaos.there import FACE, Sides, ThereCaller, note_opening, open_sides
from support.ha.cluster import Cluster
from support.installation import descendants
from support.ports import reserved_port
from support.production_guide import LOGINS, read_statements
from support.whole_installation import Account, WholeInstallation, open_whole_installation

HOLDERS_COUNT: Final = 6
_PARTS: Final = ("serve", "work", "sandbox")
_WEIGHTS: Final = dict(
    transfer=6, transfer_by_account=1, transfer_by_book=8, be_paid=4, charge=1, cob=0, pay=1, refund=2, deposit=0, repeat=1,
    read_balance=2, read_statement=0, look=2,
)  # fmt: skip
"""Mostly payments."""


class Serving(Struct, frozen=True):
    """The installation with the simulated network, by its accounts, and the live one with its bank."""

    here: WholeInstallation
    accounts: list[Account]
    sides: Sides

    def pids(self) -> dict[str, list[int]]:
        """The service's processes, none of which may need a restart."""
        return {
            f"{name} {part}": sorted(service.installation.children(part))
            for name, service in (("here", self.here), ("there", self.sides.live))
            for part in _PARTS
            if not (name == "there" and part == "sandbox")
        }

    def everybody(self) -> list[int]:
        services = (self.here, self.sides.live, self.sides.bank)
        return [pid for service in services for pid in descendants(service.installation.process.pid)]


def prepare_database(cluster: Cluster) -> None:
    """Create the guide's logins, and a database for each of both installations."""
    for statement in read_statements(LOGINS):
        cluster.execute(statement)
    cluster.execute("create database there owner pix_owner")


def addresses(cluster: Cluster, database: str) -> dict[str, str]:
    logins = dict(database_url="app", owner_database_url="owner", operator_database_url="ops", console_database_url="console")
    return {
        name: cluster.url(f"pix_{login}", f"{login}-password", database) for name, login in logins.items()
    }  # fmt: skip


@contextmanager
def open_serving(cluster: Cluster, folder: Path, **settings: str) -> Iterator[Serving]:
    prepare_database(cluster)
    settings = dict(database_cluster="pixconnect") | settings
    named = {name.upper(): value for name, value in (addresses(cluster, "there") | settings).items()}
    with ExitStack() as opened:
        bank = opened.enter_context(open_whole_installation(faces=f"{FACE}:0", log_level="warning"))
        here = opened.enter_context(
            open_whole_installation(**dict(log_level="warning") | addresses(cluster, "pixconnect") | settings)
        )
        port = opened.enter_context(reserved_port())
        own = LIVE | dict(
            API_PROCESSES_COUNT="1",
            PORT=str(port),
            CALLBACK_BASE_URL=f"http://127.0.0.1:{port}",
            DATABASE_TLS="off-by-operator",
        )
        live = opened.enter_context(open_whole_installation(policy={"handover_timeout_s": 36_000}, **own, **named))
        yield Serving(
            here, [here.open_account() for _ in range(HOLDERS_COUNT)], open_sides(bank, live, folder, bank.open_account())
        )


def start_callers(
    serving: Serving, books: tuple[Book, Book], seed: int, pause_s: float, is_over: threading.Event
) -> list[threading.Thread]:
    """Three callers of each holder at both installations."""
    note_opening(serving.sides, books[1])
    amounts, amounts_there = count(1), count(1000)
    accounts = serving.accounts
    callers: list[Any] = []
    for account in accounts:
        purse = Purse(account=account, others=[other for other in accounts if other is not account], is_poor=False)
        for number in range(3):
            chance = Random(f"{seed} caller {account.holder_id} {number}")
            callers.append(Caller(serving.here.installation.base_url, purse, books[0], chance, amounts, _WEIGHTS))
    purse = Purse(account=serving.sides.house, others=(), is_poor=False)
    for number in range(3):
        chance = Random(f"{seed} caller there {number}")
        callers.append(ThereCaller(serving.sides, purse, books[1], chance, amounts_there))
    threads = [threading.Thread(target=caller.run, args=(is_over.is_set, pause_s), daemon=True) for caller in callers]
    for thread in threads:
        thread.start()
    return threads
