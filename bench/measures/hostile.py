"""What somebody else notices of a flood of requests that are made to be dear.

``hostile_<attack>``: the victim asks for its balance, each time on a new connection, for ``seconds`` alone and for as long
beside the attack. Told are both medians and 99th percentiles in milliseconds, and ``holds``: the median is at most twice that
of before, the percentile at most 50 ms above. The service with all its processes is pinned to one core, attacker and victim
to the other.
"""

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

from bench.figures import Row, percentile
from bench.harness.installation import Account, Installation, installed
from bench.load.hostile import (
    attacking,
    compose,
    form_of_nothing,
    hostile_merchant,
    malformed_json,
    pay_by_code,
    read_answer,
)

SLOWER_TIMES = 2.0
SLOWER_MS = 50.0
PAUSE_S = 0.02
KIB = 1024


def measure_hostile(seconds: float, kinds: Sequence[str] = ()) -> Iterator[Row]:
    """The victim alone and beside each attack, in turn; beside some of them only, if ``kinds`` are named."""
    all_cores = sorted(os.sched_getaffinity(0))
    with _on_cores({all_cores[0]}), installed(PIXCONNECT_LOG_LEVEL="error") as service, hostile_merchant() as port:
        victim, tenant = service.onboard(2)
        attacks = {
            "forms": (8, [form_of_nothing(64 * KIB)]),
            "short_forms": (8, [form_of_nothing(4 * KIB)]),
            "malformed_json": (8, [malformed_json(tenant.token, 64 * KIB)]),
            "short_malformed_json": (8, [malformed_json(tenant.token, 8 * KIB - 1)]),
            "qr_codes": (16, [pay_by_code(tenant.token, port)]),
        }
        os.sched_setaffinity(0, {all_cores[-1]})
        for name in kinds or attacks:
            connections, requests = attacks[name]
            alone = asyncio.run(_ask_balance(service, victim, seconds))
            with attacking(service.base_url, requests, connections, {all_cores[-1]}) as attack:
                time.sleep(1.0)
                before_count = attack.answered_count
                beside = asyncio.run(_ask_balance(service, victim, seconds))
                answered = attack.answered_count - before_count
            yield _tell(name, seconds, connections, alone, beside) | {"attacks_per_second": answered / seconds}


def _tell(name: str, seconds: float, connections: int, alone: list[float], beside: list[float]) -> Row:
    row: Row = {"name": f"hostile_{name}", "seconds": seconds, "connections": connections, "asked": len(beside)}
    for when, took_s in (("alone", alone), ("beside", beside)):
        row |= {f"p50_ms_{when}": 1000 * percentile(took_s, 0.5), f"p99_ms_{when}": 1000 * percentile(took_s, 0.99)}
    median_holds = row["p50_ms_beside"] <= SLOWER_TIMES * row["p50_ms_alone"]
    return row | {"holds": median_holds and row["p99_ms_beside"] <= row["p99_ms_alone"] + SLOWER_MS}


async def _ask_balance(service: Installation, victim: Account, seconds: float) -> list[float]:
    """How long each answer took, from before there was a connection."""
    place = urlsplit(service.base_url)
    request = compose("GET", "/v1/connect/ledger/balance", token=victim.token)
    took_s: list[float] = []
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        began_s = time.monotonic()
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(request)
        status, _ = await read_answer(reader)
        took_s.append(time.monotonic() - began_s)
        assert status == 200, status
        writer.close()
        await asyncio.sleep(PAUSE_S)
    return took_s


@contextmanager
def _on_cores(cores: set[int]) -> Iterator[None]:
    """What is started meanwhile stays on these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
