"""An installation of two cells whose processes may be killed, a holder in each, and what must hold of the money of both."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import asyncpg
from msgspec import Struct

from pixconnect.cli.frame.exit_status import ExitStatus
from support import postgres
from support.installation import run_verb
from support.waiting import wait_until
from support.whole_installation import Account, Answer, WholeInstallation, open_whole_installation

FUNDS_CENTS: Final = 1_000_000
AMOUNT_CENTS: Final = 700
_SENT: Final = """
    select direction, end_to_end_id, holder_id, status, amount_cents, returned_cents, outcome_code from transfer
    where not is_book order by id
"""
_GIVEN_BACK: Final = "select flow, return_id, holder_id, status, amount_cents from refund order by id"
POINTS_OF_A_PIX: Final = (
    *("serve before group write", "serve after group write", "serve after COMMIT of start_transfers"),
    *("work before mark", "work after mark", "work before call", "work after call"),
    *("sandbox before orders", "sandbox after orders", "sandbox after arrivals"),
    *("work after COMMIT of receive_credits", "work before acknowledgement"),
    *("sandbox before word on arrivals", "sandbox after word on arrivals", "sandbox after end of a crossing"),
    *("work after COMMIT of write_endings", "sandbox before word on orders"),
)
"""Where a process dies on the way of a Pix from one cell to the other, in their order."""
POINTS_OF_A_REFUND: Final = (
    *("serve after COMMIT of start_refunds", "work before refund call", "work after refund call"),
    *("sandbox after orders", "sandbox after arrivals", "work after COMMIT of receive_returns"),
    *("work before acknowledgement", "sandbox after word on arrivals", "sandbox after end of a crossing"),
)


class TwoCells(Struct, frozen=True, kw_only=True):
    """An installation of two cells, with a holder in each."""

    service: WholeInstallation
    urls: Sequence[str]
    """The databases', as their owner; the home cell's first."""
    holders: Sequence[Account]

    def pay(self, payer: int, name: str, cents: int = AMOUNT_CENTS) -> Answer:
        body = {
            "amount": cents,
            "key": self.holders[1 - payer].key,
            "key_type": "EMAIL",
            "external_id": name,
        }
        return self.service.insist(self.holders[payer], "POST", "/v1/connect/transfer/key", body)

    def pay_charge(self, payer: int, name: str, cents: int) -> Answer:
        """Pay a charge of the other one, which is made for it, by its code."""
        payee = self.holders[1 - payer]
        charge = {"amount": cents, "key": payee.key, "external_id": name}
        made = self.service.insist(payee, "POST", "/v1/connect/charge", charge)
        body = {"amount": cents, "emv": made.data["emvqrcps"], "external_id": name}
        return self.service.insist(self.holders[payer], "POST", "/v1/connect/transfer/qrcode", body)

    def give_back(self, payee: int, end_to_end_id: str, name: str, cents: int = 300) -> Answer:
        body = {"end_to_end_id": end_to_end_id, "amount": cents, "external_id": name}
        return self.service.insist(self.holders[payee], "POST", "/v1/connect/refund", body)

    def read(self, query: str) -> list[list[Any]]:
        """What a query finds in each of the two databases."""

        async def look() -> list[list[Any]]:
            found: list[list[Any]] = []
            for url in self.urls:
                connection = await asyncpg.connect(url, server_settings={"search_path": "pixconnect"})
                try:
                    found.append(await connection.fetch(query))
                finally:
                    await connection.close()
            return found

        return asyncio.run(look())

    def is_at_rest(self) -> bool:
        """Nothing is under way in either cell; what waits for a deadline gets it."""
        left = self.read(
            "select from transfer where status = 'PROCESSING' union all select from refund where status = 'PROCESSING'"
        )
        if any(left):
            self.service.advance_clock(self.holders[0], 5)
        return not any(left)

    def check(self) -> None:
        """What has left one cell has arrived in the other, once, and the money of both is what it was."""
        wait_until(self.is_at_rest, "rest in both cells")
        sent = self.read(_SENT)
        for place, rows in enumerate(sent):
            out = {row["end_to_end_id"]: row for row in rows if row["direction"] == "OUT"}
            arrived = {row["end_to_end_id"]: row for row in sent[1 - place] if row["direction"] == "IN"}
            settled = {name for name, row in out.items() if row["status"] in ("CONFIRMED", "RETURNED")}
            assert settled == {name for name, row in arrived.items() if row["status"] in ("CONFIRMED", "RETURNED")}
            for name in settled:
                assert out[name]["amount_cents"] == arrived[name]["amount_cents"]
                assert out[name]["returned_cents"] == arrived[name]["returned_cents"]
        given = self.read(_GIVEN_BACK)
        for place, rows in enumerate(given):
            left = {row["return_id"]: row["amount_cents"] for row in rows if _is_settled(row, "OUT")}
            came = {row["return_id"]: row["amount_cents"] for row in given[1 - place] if _is_settled(row, "IN")}
            assert left == came
        balances = [self.service.insist(one, "GET", "/v1/connect/balance").data for one in self.holders]
        assert all(each["available_funds"] == each["current_funds"] for each in balances)
        assert sum(each["available_funds"] for each in balances) == len(balances) * FUNDS_CENTS

    def check_books(self) -> None:
        assert not any(self.read("select from kept_report"))
        assert not _run(self.service, "verify", "--whole", "--again-after-s", "2")["findings"]


def _is_settled(refund: Any, flow: str) -> bool:
    return refund["flow"] == flow and refund["status"] == "RETURNED"


@contextmanager
def open_two_cells() -> Iterator[TwoCells]:
    """With a holder in each cell who has FUNDS_CENTS; parts may be killed at points."""
    with open_whole_installation(handover_timeout_s="36000") as service:
        url = json.loads((service.installation.home / "running.json").read_text())["owner_database_url"]
        postgres.execute(url, "create database second_cell")
        parts = urlsplit(url)
        address = f"postgresql://{parts.netloc.rpartition('@')[2]}/second_cell?{parts.query}"
        _run(service, "cell", "add", "second", "--database-url", address)
        there = parts._replace(path="/second_cell").geturl()
        holders = [_open_holder(service, name, number) for number, name in enumerate(("home", "second"))]
        two = TwoCells(service=service, urls=(url, there), holders=holders)
        for holder in holders:
            wait_until(
                lambda holder=holder: service.ask(holder, "GET", "/v1/connect/balance") is not None,
                "a cell that is served",
            )
            service.insist(holder, "POST", "/sandbox/v1/deposits", {"amount": FUNDS_CENTS})
        yield two


def _run(service: WholeInstallation, *words: str) -> Any:
    done = run_verb(service.installation.home, *words, "--json")
    assert done.returncode == ExitStatus.DONE, (done.stdout, done.stderr)
    return json.loads(done.stdout)


def _open_holder(service: WholeInstallation, cell: str, number: int) -> Account:
    key = f"{cell}@prove.example"
    words = ("--name", "Maria", "--tax-id", "52998224725", "--account-number", f"100{number}", "--no-limits")
    holder_id = _run(service, "holder", "create", *words, "--cell", cell)["holder_id"]
    _run(service, "key", "add", "--holder-id", str(holder_id), "--key-type", "EMAIL", "--key", key)
    made = _run(service, "client", "create", "--holder-id", str(holder_id))
    return Account(holder_id=holder_id, key=key, client_id=made["client_id"], client_secret=made["client_secret"])
