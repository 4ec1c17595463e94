"""Four ways in which transfers of one account may be accepted and settled at once, as models of a few tables.

    .venv/bin/python -m bench.measures.hot_models --seconds 4 --rounds 3

Each model has a session that accepts and one that settles, 64 transfers in a batch, with the client's time between the lock and
the write (``--thinks-ms``) as the service has it. ``one row`` locks one balance for both. ``short`` does too, and sends lock,
write and commit as one call, without any client's time: the shortest hold that there can be. ``fold`` settles into a table
beside the ledger, which a third session folds into it ten times a second. ``two rows`` locks the balance to accept, and the end
of the statement to settle. Printed are settled batches a second alone and while another session accepts as fast as it can, and
their ratio, the median of the rounds.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

from bench.harness.installation import Installation, installed

if TYPE_CHECKING:
    import asyncpg

    Connection = asyncpg.Connection[asyncpg.Record]

_TABLES: Final = """
    drop schema if exists model cascade;
    create schema model;
    create table model.balance (id int primary key, available bigint, reserved bigint, number bigint) with (fillfactor = 50);
    create table model.head (id int primary key, number bigint, funds bigint, settled bigint) with (fillfactor = 50);
    create table model.entry (id bigint generated always as identity primary key, number bigint, funds bigint, cents bigint,
        unique (number));
    create table model.unfolded (id bigint generated always as identity primary key, cents bigint);
    insert into model.balance values (1, 1000000000000, 1000000000000, 0);
    insert into model.head values (1, 0, 2000000000000, 0);
    create function model.accept() returns void language sql as $$
        select from model.balance where id = 1 for no key update;
        insert into model.entry (cents) select 1 from generate_series(1, 64);
        update model.balance set available = available - 64, reserved = reserved + 64 where id = 1;
    $$;
    create function model.settle() returns void language sql as $$
        select from model.balance where id = 1 for no key update;
        insert into model.entry (number, funds, cents)
        select number + n, available + reserved - n, 1 from model.balance, generate_series(1, 64) as n where balance.id = 1;
        update model.balance set reserved = reserved - 64, number = number + 64 where id = 1;
    $$;
"""
_LOCK_BALANCE: Final = "select from model.balance where id = 1 for no key update"
_LOCK_HEAD: Final = "select from model.head where id = 1 for no key update"
_ACCEPT: Final = """
    with made as (insert into model.entry (cents) select 1 from generate_series(1, 64))
    update model.balance set available = available - 64, reserved = reserved + 64 where id = 1
"""
_SETTLE: Final = """
    with made as (
        insert into model.entry (number, funds, cents)
        select number + n, available + reserved - n, 1 from model.balance, generate_series(1, 64) as n where balance.id = 1
    )
    update model.balance set reserved = reserved - 64, number = number + 64 where id = 1
"""
_SETTLE_AT_HEAD: Final = """
    with made as (
        insert into model.entry (number, funds, cents)
        select number + n, funds - n, 1 from model.head, generate_series(1, 64) as n where head.id = 1
    )
    update model.head set number = number + 64, funds = funds - 64, settled = settled + 64 where id = 1
"""
_SETTLE_UNFOLDED: Final = "insert into model.unfolded (cents) select 1 from generate_series(1, 64)"
_FOLD: Final = """
    with taken as (delete from model.unfolded returning id),
    line as (select row_number() over (order by id) as n from taken),
    made as (
        insert into model.entry (number, funds, cents)
        select number + n, available + reserved - n, 1 from model.balance, line where balance.id = 1
    )
    update model.balance set reserved = reserved - counted.n, number = number + counted.n
    from (select count(*) as n from taken) as counted where balance.id = 1
"""

Step = Callable[["Connection", float], Awaitable[None]]


def _in_a_transaction(lock: str | None, write: str) -> Step:
    async def step(connection: "Connection", thinks_s: float) -> None:
        async with connection.transaction():
            if lock is not None:
                await connection.execute(lock)
            await asyncio.sleep(thinks_s)
            await connection.execute(write)

    return step


def _in_one_call(call: str) -> Step:
    async def step(connection: "Connection", thinks_s: float) -> None:
        await asyncio.sleep(thinks_s)  # before anything is locked
        await connection.execute(call)

    return step


async def _fold(connection: "Connection", thinks_s: float) -> None:
    await asyncio.sleep(0.1)
    async with connection.transaction():
        await connection.execute(_LOCK_BALANCE)
        await asyncio.sleep(thinks_s)
        await connection.execute(_FOLD)


_ONE_ROW: Final = _in_a_transaction(_LOCK_BALANCE, _ACCEPT)
SHAPES: Final[Mapping[str, tuple[Step, Step, Step | None]]] = {
    "one row": (_ONE_ROW, _in_a_transaction(_LOCK_BALANCE, _SETTLE), None),
    "short": (_in_one_call("select model.accept()"), _in_one_call("select model.settle()"), None),
    "fold": (_ONE_ROW, _in_a_transaction(None, _SETTLE_UNFOLDED), _fold),
    "two rows": (_ONE_ROW, _in_a_transaction(_LOCK_HEAD, _SETTLE_AT_HEAD), None),
}


async def _count(service: Installation, step: Step, until_s: float, thinks_s: float) -> int:
    connection = await service.connect()
    count = 0
    while time.monotonic() < until_s:
        await step(connection, thinks_s)
        count += 1
    await connection.close()
    return count


async def measure_shape(
    service: Installation, name: str, seconds: float, thinks_s: float
) -> tuple[float, float, float]:
    """Batches a second: settled alone, settled beside acceptance, and accepted beside that."""
    accept, settle, beside = SHAPES[name]
    connection = await service.connect()
    await connection.execute(_TABLES)
    await connection.close()
    found: list[list[int]] = []
    for steps in ([settle], [settle, accept]):
        all_steps = steps if beside is None else [*steps, beside]
        until_s = time.monotonic() + seconds
        found.append(await asyncio.gather(*(_count(service, step, until_s, thinks_s) for step in all_steps)))
    return found[0][0] / seconds, found[1][0] / seconds, found[1][1] / seconds


def main() -> None:
    """Print one line for each shape."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--thinks-ms", type=float, default=5)
    asked = parser.parse_args()
    with installed(is_proved=False) as service:
        for name in SHAPES:
            rounds = [
                asyncio.run(measure_shape(service, name, asked.seconds, asked.thinks_ms / 1000))
                for _ in range(asked.rounds)
            ]
            alone, beside, accepted = (statistics.median(column) for column in zip(*rounds, strict=True))
            ratio = statistics.median(beside / alone for alone, beside, _ in rounds)
            print(
                f"{name:8} settled {alone:5.0f} alone, {beside:5.0f} beside {accepted:5.0f} accepted: {ratio:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
