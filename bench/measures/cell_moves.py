"""What moving a cell under load costs its holders: nothing lost, nothing there twice, and a moment of silence.

``cell_moves``: a cell is moved to and fro between two servers, ``--rounds`` times, by ``pixconnect cell move`` in a process of
its own, while eight writers send a holder's transfers, charges and deposits there without a pause. After each move they stop,
everything under way comes to its end, and each of their requests is looked for in the new database:

- ``lost``: was answered 200 and is not there, under the id that the answer said and with its amount;
- ``extra``: is there and was answered that nothing was done, or is there twice, or nobody asked for it;
- ``unknown``: was answered that its outcome is not known, or nothing at all: it may be there or not, but once only;
- ``wrong_sums``: moves after which the balance was not, to the cent, what the rows say.

``silence_s``: for each move the longest time in which no writer was answered 200, from its begin to the first answer after its
end. ``undone``: moves that took themselves back because what the cell had last did not arrive in time, and were run again.
``move_s``: how long the verb took, all tries together. ``refused``: answers 503 that said that nothing was done.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, pairwise
from typing import Any, Final

import asyncpg
import uvloop
from msgspec import Struct, field

from bench.figures import Row, percentile
from bench.harness.cells import QUIET, CellServer, InCell, Spread, run_verb, spread
from bench.load.http_client import HttpClient, Refused
from bench.measures.accepting import CHARGE, TRANSFER, TRANSFER_BODY

WRITERS: Final = 8
DEPOSIT: Final = "/sandbox/v1/deposits"
_NOT_DONE: Final = "SERVICE_UNAVAILABLE"
_AGAIN_AFTER_S: Final = 0.02
_BETWEEN_S: Final = 1.0
_TRIES_MAX: Final = 20
_LATE: Final = "did not arrive in time"
# Each is known by a word of its own; a deposit has none but its amount, which no other one has.
_ROWS: Final = {
    TRANSFER: "select external_id as word, id, amount_cents from transfer where direction = 'OUT'",
    CHARGE: "select external_id as word, id, amount_cents from charge",
    DEPOSIT: "select amount_cents::text as word, id, amount_cents from deposit",
}
_IS_WRONG: Final = """
    select available_cents is distinct from (select sum(amount_cents) from deposit where holder_id = $1)
            - (select coalesce(sum(amount_cents), 0) from transfer where holder_id = $1 and status = 'CONFIRMED')
        or reserved_cents <> 0 or exists (select from transfer where status <> 'CONFIRMED')
    from balance where holder_id = $1
"""


class Asked(Struct):
    """What was asked for at one address."""

    answered: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The id and the amount of each word that was answered 200."""
    not_done: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)

    def compare(self, rows: Sequence[Any], before: frozenset[str]) -> Counter[str]:
        """What is wrong with what is there; some were there before anybody wrote."""
        found = {row["word"]: (row["id"], row["amount_cents"]) for row in rows if row["word"] not in before}
        counts = Counter(row["word"] for row in rows if row["word"] not in before)
        return Counter(
            lost=sum(found.get(word) != what for word, what in self.answered.items()),
            extra=sum(times - 1 for times in counts.values())
            + sum(word not in self.answered and word not in self.unknown for word in found),
        )


class _Writing(Struct, kw_only=True):
    """Writers who go on until they are told to stop."""

    cell: InCell
    client: HttpClient
    key: str
    asked: dict[str, Asked] = field(default_factory=lambda: {path: Asked() for path in _ROWS})
    before: dict[str, frozenset[str]] = field(default_factory=dict)
    answered_at_s: list[float] = field(default_factory=list)
    numbers: count[int] = field(default_factory=lambda: count(1))

    async def write(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            number = next(self.numbers)
            name = f"move-{number}"
            await self._ask(TRANSFER, name, TRANSFER_BODY | {"amount": 1 + number % 100, "external_id": name})
            await self._ask(CHARGE, name, {"amount": 1 + number % 100, "key": self.key, "external_id": name})
            await self._ask(DEPOSIT, str(1000 + number), {"amount": 1000 + number})

    async def _ask(self, path: str, word: str, body: Mapping[str, Any]) -> None:
        asked = self.asked[path]
        try:
            answer = await self.client.post(path, body)
        except Refused as refused:
            is_sure = refused.args[0]["error"]["code"] == _NOT_DONE
            (asked.not_done if is_sure else asked.unknown).add(word)
        except OSError:
            asked.unknown.add(word)
        else:
            self.answered_at_s.append(time.monotonic())
            asked.answered[word] = answer["id"], answer["amount"]
            return
        await asyncio.sleep(_AGAIN_AFTER_S)


def measure_moves(rounds: int) -> Iterator[Row]:
    """So often."""
    with spread(2, 3, logs_rows=True, settings=QUIET) as two:
        load_before = os.getloadavg()[0]
        yield {
            "name": "cell_moves",
            "rounds": rounds,
            "writers": WRITERS,
            **uvloop.run(_move_to_and_fro(two, rounds)),
            "load": [load_before, os.getloadavg()[0]],
        }


async def _move_to_and_fro(two: Spread, rounds: int) -> Row:
    cell = two.cells[1]
    client = HttpClient(cell.base_url, [cell.demonstration().token])
    writing = _Writing(cell=cell, client=client, key=cell.sandbox["pix_keys"][0])
    rows = await _read(cell)
    writing.before = {path: frozenset(row["word"] for row in rows[path]) for path in _ROWS}
    wrong: Counter[str] = Counter()
    undone_count, silence_s, move_s = 0, list[float](), list[float]()
    for number in range(rounds):
        target, former = two.servers[(number + 1) % 2], two.servers[number % 2]
        moved = await _move_beside_writers(writing, target)
        undone_count += moved["undone"]
        silence_s.append(moved["silence_s"])
        move_s.append(moved["move_s"])
        await cell.until_quiet()
        wrong += await _compare(writing)
        await asyncio.to_thread(former.drop_others, "")
    client.close()
    asked = writing.asked.values()
    return {
        "answered": sum(len(each.answered) for each in asked),
        "lost": wrong["lost"],
        "extra": wrong["extra"],
        "unknown": sum(len(each.unknown) for each in asked),
        "refused": sum(len(each.not_done) for each in asked),
        "wrong_sums": wrong["sums"],
        "undone": undone_count,
        "silence_p50_s": percentile(silence_s, 0.5),
        "silence_max_s": max(silence_s),
        "silence_s": silence_s,
        "move_s": move_s,
    }


async def _move_beside_writers(writing: _Writing, target: CellServer) -> Row:
    """One move, tried until it is done; the writers have stopped afterwards."""
    stop, cell = asyncio.Event(), writing.cell
    writers = [asyncio.create_task(writing.write(stop)) for _ in range(WRITERS)]
    await asyncio.sleep(_BETWEEN_S)
    database = await asyncio.to_thread(target.make_database)
    writing.answered_at_s.clear()
    began_s, undone_count = time.monotonic(), 0
    while (done := await asyncio.to_thread(_run_move, cell, target.address_of(database))).returncode:
        undone_count += 1
        if _LATE not in done.stderr or undone_count == _TRIES_MAX:
            raise SystemExit(f"the cell does not move: {done.stderr}")
    ended_s = time.monotonic()
    while writing.answered_at_s[-1] < ended_s:  # noqa: ASYNC110  nobody tells
        await asyncio.sleep(0.02)
    at_s = writing.answered_at_s
    silence_s = max(later - earlier for earlier, later in pairwise(at_s))
    await asyncio.sleep(_BETWEEN_S)
    stop.set()
    await asyncio.gather(*writers)
    cell.running["owner_database_url"] = target.url_of(database)
    return {"undone": undone_count, "silence_s": silence_s, "move_s": ended_s - began_s}


def _run_move(cell: InCell, address: str) -> subprocess.CompletedProcess[str]:
    return run_verb(cell.home, "cell", "move", cell.name, "--to", address)


async def _compare(writing: _Writing) -> Counter[str]:
    rows = await _read(writing.cell)
    wrong: Counter[str] = Counter()
    for path, asked in writing.asked.items():
        wrong += asked.compare(rows[path], writing.before[path])
    connection = await writing.cell.connect()
    try:
        wrong["sums"] += await connection.fetchval(_IS_WRONG, int(writing.cell.sandbox["holder_id"]))
    finally:
        await connection.close()
    return wrong


async def _read(cell: InCell) -> dict[str, Sequence[asyncpg.Record]]:
    connection = await cell.connect()
    try:
        return {path: await connection.fetch(query) for path, query in _ROWS.items()}
    finally:
        await connection.close()
