"""How fast one account's transfers settle while others are accepted, and how much of that waits for a lock.

    .venv/bin/python -m bench.measures.hot_account --seconds 10 --rounds 3

In each round the worker stands still while transfers of the account are accepted. Then it settles them: ``alone``, ``beside
another`` account whose transfers are accepted as fast as they can be, and ``beside its own``. The first is what the machine
can do; the second has the same load on its processors as the third, and no row in common with it.

The worker's sessions are looked at every two milliseconds. Of all looks at a transaction that locks statements, ``waiting`` is
the part in which it waits for a lock. One run is one machine's: another load beside it changes all figures.
"""

import argparse
import asyncio
import threading
import time
from collections import defaultdict

from msgspec import Struct

from bench.harness.installation import Account, Installation, installed
from bench.harness.processes import stopped_processes
from bench.load.generators import wrk
from bench.measures.accepting import TRANSFER, TRANSFER_BODY

_LOOK = """
    select pid, xact_start, wait_event_type = 'Lock' as is_waiting,
        query like '%from statement_head%for no key update%' as is_locking
    from pg_stat_activity where application_name = 'pixconnect worker' and xact_start is not null
"""
_SETTLED_S = 2
"""How long it is looked at: less than the worker needs for what was accepted before."""
_SETTLED = (
    "select count(*) from pixconnect.transfer where holder_id = $1 and direction = 'OUT' and settled_at is not null"
)


class _Transaction(Struct):
    looks_count: int = 0
    waiting_count: int = 0
    is_settlement: bool = False


async def _look(service: Installation, stop: threading.Event, seen: defaultdict[object, _Transaction]) -> None:
    connection = await service.connect()
    while not stop.is_set():
        for row in await connection.fetch(_LOOK):
            transaction = seen[row["pid"], row["xact_start"]]
            transaction.looks_count += 1
            transaction.waiting_count += bool(row["is_waiting"])
            transaction.is_settlement |= row["is_locking"]
        await asyncio.sleep(0.002)
    await connection.close()


async def _count_settled(service: Installation, account: Account) -> int:
    connection = await service.connect()
    count = await connection.fetchval(_SETTLED, account.holder_id)
    await connection.close()
    return count


def _settle(service: Installation, filled: Account, beside: Account | None, seconds: float) -> str:
    """Fill an account with orders while the worker stands still, let it settle them, and say how fast it did."""
    seen, accepted = defaultdict[object, _Transaction](_Transaction), [0.0]

    def accept() -> None:
        if beside is not None:
            load = wrk(
                service.base_url, TRANSFER, TRANSFER_BODY, [beside.token], connections=64, seconds=_SETTLED_S + 1
            )
            accepted[0] = load.per_second

    stop, load = threading.Event(), threading.Thread(target=accept)
    looking = threading.Thread(target=lambda: asyncio.run(_look(service, stop, seen)))
    with stopped_processes(service.process.pid, "worker"):
        wrk(service.base_url, TRANSFER, TRANSFER_BODY, [filled.token], connections=64, seconds=seconds)
        load.start()
        time.sleep(1)
        before = asyncio.run(_count_settled(service, filled))
        looking.start()
    time.sleep(_SETTLED_S)
    settled = (asyncio.run(_count_settled(service, filled)) - before) / _SETTLED_S
    stop.set()
    looking.join()
    load.join()
    service.wait_until_quiet()
    settling = [each for each in seen.values() if each.is_settlement]
    waiting = sum(each.waiting_count for each in settling) / max(sum(each.looks_count for each in settling), 1)
    return f"settled {settled:5.0f}/s, accepted {accepted[0]:5.0f}/s, waiting {waiting:.2f} of {len(settling)} transactions"


def measure(seconds: float, rounds: int) -> None:
    """Print three lines for each round."""
    with installed(is_proved=False) as service:
        filled = service.demonstration()
        (another,) = service.onboard(1)
        for _ in range(rounds):
            for name, beside in (("alone", None), ("beside another", another), ("beside its own", filled)):
                print(f"{name:14} {_settle(service, filled, beside, seconds)}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    measure(asked.seconds, asked.rounds)
