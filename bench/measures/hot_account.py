"""How much of a settlement waits for the balance's lock, while transfers of the same account are accepted.

    .venv/bin/python -m bench.measures.hot_account --seconds 20 --rounds 3

The worker's sessions are looked at every two milliseconds. Of all looks at a transaction that locks balances, ``waiting`` is
the part in which it waits for a lock. ``settled`` and ``accepted`` are of the same seconds. One run is one machine's: another
load beside it changes all three.
"""

import argparse
import asyncio
import threading
from collections import defaultdict

from msgspec import Struct

from bench.harness.installation import Installation, installed
from bench.load.generators import wrk
from bench.measures.accepting import TRANSFER, TRANSFER_BODY

_LOOK = """
    select pid, xact_start, wait_event_type = 'Lock' as is_waiting, query like '%from balance%for no key update%' as is_locking
    from pg_stat_activity where application_name = 'pixconnect worker' and xact_start is not null
"""
_SETTLED = "select count(*) from pixconnect.transfer where direction = 'OUT' and settled_at is not null"


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


async def _count_settled(service: Installation) -> int:
    connection = await service.connect()
    count = await connection.fetchval(_SETTLED)
    await connection.close()
    return count


def measure(seconds: float, rounds: int) -> None:
    """Print one line for each round."""
    with installed(is_proved=False) as service:
        account = service.demonstration()
        for _ in range(rounds):
            seen = defaultdict[object, _Transaction](_Transaction)
            stop, before = threading.Event(), asyncio.run(_count_settled(service))
            looking = threading.Thread(target=lambda: asyncio.run(_look(service, stop, seen)))  # noqa: B023  it ends in this round
            looking.start()
            load = wrk(service.base_url, TRANSFER, TRANSFER_BODY, [account.token], connections=64, seconds=seconds)
            stop.set()
            looking.join()
            settled = asyncio.run(_count_settled(service)) - before
            service.wait_until_quiet()
            settling = [each for each in seen.values() if each.is_settlement]
            looks_count = sum(each.looks_count for each in settling)
            waiting = sum(each.waiting_count for each in settling) / max(looks_count, 1)
            print(
                f"accepted {load.per_second:.0f}/s, settled {settled / seconds:.0f}/s, "
                f"waiting {waiting:.2f} of {looks_count} looks at {len(settling)} transactions"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    measure(asked.seconds, asked.rounds)
