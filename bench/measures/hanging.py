"""How much two accounts whose institution hangs delay the eighteen others that the same worker looks after.

``hanging``: twenty accounts, each read once a second, at one face of the central bank's API over TLS. Each is paid once in two
seconds. Told is how long after it has settled there a payment to the eighteen is in the books, in turn while all are answered
and while two get no octet of any answer; ``ratio`` is of the 99th percentiles, of all rounds together.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from urllib.parse import urlsplit

from msgspec import Struct

from bench.figures import Row, spread_ms
from bench.harness.accounts import KEY, Pair, paired
from bench.harness.installation import Account
from pixconnect.cli.frame import operating
from pixconnect.usecases.money import holder as holder_usecases

ACCOUNTS_COUNT = 20
HANGING_COUNT = 2
_PAID_EVERY_S = 2.0
_READ_MAX_S = 60
_OPENED_AT_ONCE = 4
_HANGS_FOR_S = 15
"""Before who hangs is measured: its first calls have no answer by then."""


class Gate(Struct):
    """A way to the face, over which nothing comes while it is shut."""

    port: int = 0
    is_shut: bool = False


def measure_hanging(seconds: float, rounds: int) -> Iterator[Row]:
    """In turn with all answering and with two that hang."""
    with paired("efi") as pair:
        yield asyncio.run(_measure(pair, seconds, rounds))


async def _measure(pair: Pair, seconds: float, rounds: int) -> Row:
    shown = await asyncio.to_thread(pair.ask_bank, "face", "show", "efi")
    async with _gate(urlsplit(shown["url"]).port or 443) as gate:
        accounts = await asyncio.to_thread(pair.bank.onboard, ACCOUNTS_COUNT)
        await asyncio.to_thread(_open_all, pair, accounts, gate.port)
        await _pay_and_read(pair, accounts, seconds)  # what is warm is compared
        well_s: list[float] = []
        beside_s: list[float] = []
        for _ in range(rounds):
            well_s += await _pay_and_read(pair, accounts, seconds)
            gate.is_shut = True
            await asyncio.sleep(_HANGS_FOR_S)
            beside_s += await _pay_and_read(pair, accounts, seconds)
            gate.is_shut = False
            await asyncio.sleep(_HANGS_FOR_S)
    well, beside = spread_ms(well_s), spread_ms(beside_s)
    return {
        "name": "hanging",
        "seconds": seconds,
        "rounds": rounds,
        "accounts": ACCOUNTS_COUNT,
        "hanging": HANGING_COUNT,
        "payments": len(beside_s),
        **{f"{name}_alone": value for name, value in well.items()},
        **{f"{name}_beside": value for name, value in beside.items()},
        "ratio": beside["p99_ms"] / well["p99_ms"],
    }


def _open_all(pair: Pair, accounts: list[Account], gate_port: int) -> None:
    """An account there and here for each; the first ones over the gate."""
    os.environ["PIXCONNECT_HOME"] = str(pair.bank.home)
    for number, account in enumerate(accounts):
        add = partial(holder_usecases.add_pix_key, holder_id=account.holder_id, key_type="EMAIL", text=_key(number))
        operating.run(add)
    for number, account in enumerate(accounts[:HANGING_COUNT]):
        pair.open_account("efi", number, account.holder_id, gate_port)
    with ThreadPoolExecutor(_OPENED_AT_ONCE) as threads:
        others = list(enumerate(accounts))[HANGING_COUNT:]
        list(threads.map(lambda one: pair.open_account("efi", one[0], one[1].holder_id), others))


def _key(number: int) -> str:
    return KEY.format(number=number)


async def _pay_and_read(pair: Pair, accounts: list[Account], seconds: float) -> list[float]:
    """Pay all of them for a while; how long each payment to those that never hang took into the books."""
    since, ends_at_s = datetime.now(UTC), time.monotonic() + seconds

    async def pay(number: int) -> int:
        await asyncio.sleep(_PAID_EVERY_S * number / len(accounts))
        body, token = {"key": _key(number), "amount": 1}, accounts[number].token
        for count in itertools.count():
            if time.monotonic() > ends_at_s:
                return count
            await asyncio.gather(
                asyncio.to_thread(pair.bank.post, "/sandbox/v1/payments", body, token), asyncio.sleep(_PAID_EVERY_S)
            )
        raise AssertionError

    counts = await asyncio.gather(*map(pay, range(len(accounts))))
    return await _wait_for_books(pair, since, sum(counts[HANGING_COUNT:]))


async def _wait_for_books(pair: Pair, since: datetime, count: int) -> list[float]:
    bank, live = await pair.bank.connect(), await pair.connect_live()
    # Accounts are numbered from 1, in the order in which they were made.
    arrived = "select end_to_end_id, created_at from transfer where created_at >= $1 and institution_id > $2"
    try:
        async with asyncio.timeout(_READ_MAX_S):
            while len(here := await live.fetch(arrived, since, HANGING_COUNT)) < count:  # noqa: ASYNC110  it is in the database
                await asyncio.sleep(0.2)
        settled = "select end_to_end_id, settled_at from transfer where created_at >= $1 and direction = 'IN'"
        there = {row["end_to_end_id"]: row["settled_at"] for row in await bank.fetch(settled, since)}
    finally:
        await bank.close()
        await live.close()
    return [(row["created_at"] - there[row["end_to_end_id"]]).total_seconds() for row in here]


@asynccontextmanager
async def _gate(to_port: int) -> AsyncIterator[Gate]:
    gate = Gate()
    carrying = set[asyncio.Task[None]]()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", to_port)
        carrying.update(asyncio.create_task(_carry(gate, *way)) for way in ((reader, back), (there, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    gate.port = server.sockets[0].getsockname()[1]
    try:
        yield gate
    finally:
        server.close()
        for task in carrying:
            task.cancel()
        await asyncio.gather(*carrying, return_exceptions=True)


async def _carry(gate: Gate, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while octets := await reader.read(65536):
            if not gate.is_shut:
                writer.write(octets)
                await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()
