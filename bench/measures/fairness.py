"""The delay of nine modest holders by a tenth that sends the worst requests.

``fairness``: nine holders make five requests a second each, in turn alone and beside a tenth that repeats the worst
request of one kind of operation as fast as it is answered. Each kind is a row, with the 99th percentile of the nine in
milliseconds, alone and beside it (medians of all rounds), and the number of their failed requests. ``is_fair`` is
whether the percentile is at most doubled, or at most 20 ms higher.

Sending costs the same cores too. Two more figures show that part: the percentile while the tenth sends as many requests
to another server that only answers with as many octets, and the delay with which the nine themselves wake up.
"""

import asyncio
import statistics
import time
from collections.abc import Iterator, Sequence

from msgspec import Struct, structs

from bench.figures import Row, percentile
from bench.harness.installation import Account, Installation, installed
from pixconnect.doors.cli import operating
from pixconnect.kernel.flows import holder as holder_usecases
from support.greedy_holder import Answered, Orders, Told, ask_calmly, greedy, idle_server, p99_ms, worst_of

OTHERS_COUNT = 9
CHARGES_COUNT = 1_000
SLOWER_MS = 20.0
SLOWER_TIMES = 2.0
TAIL_S = 2.0  # wait for the last work of the tenth, except webhooks, which have no receiver
LOOK_EVERY_S = 0.005


class _Round(Struct, frozen=True, kw_only=True):
    """The 99th percentiles of the nine in one round, in milliseconds."""

    alone_ms: float
    beside_ms: float
    beside_asking_elsewhere_ms: float
    woken_late_ms: float
    failed: int


def measure_fairness(seconds: float, rounds: int, kinds: Sequence[str] = ()) -> Iterator[Row]:
    """Alone and beside each kind of load in turn, or only beside the given ``kinds``."""
    with installed() as service:
        tenth, *others = service.onboard(1 + OTHERS_COUNT)
        keys = [_add_key(account) for account in others]
        key = _add_key(tenth)
        worst = worst_of(key, _prepare(service, tenth, key))
        measured: dict[str, list[_Round]] = {name: [] for name in kinds or worst}
        for _ in range(rounds):
            for name, of_kind in measured.items():
                connections, asked = worst[name]
                callers = [(account.token, its_key) for account, its_key in zip(others, keys, strict=True)]
                orders = Orders(base_url=service.base_url, token=tenth.token, asked=asked, connections=connections)
                of_kind.append(_measure_round(service.base_url, callers, seconds, orders))
    for name, of_kind in measured.items():
        alone, beside = (statistics.median(getattr(each, part) for each in of_kind) for part in ("alone_ms", "beside_ms"))
        yield {
            "name": f"fairness_{name.replace(' ', '_')}",
            "seconds": seconds,
            "rounds": rounds,
            "p99_ms_alone": alone,
            "p99_ms_beside": beside,
            "p99_ms_beside_each": [each.beside_ms for each in of_kind],
            "p99_ms_beside_asking_elsewhere": statistics.median(each.beside_asking_elsewhere_ms for each in of_kind),
            "p99_ms_woken_late": statistics.median(each.woken_late_ms for each in of_kind),
            "failed": sum(each.failed for each in of_kind),
            "is_fair": beside <= max(SLOWER_TIMES * alone, SLOWER_MS + alone),
        }


def _measure_round(base_url: str, callers: Sequence[tuple[str, str]], seconds: float, orders: Orders) -> _Round:
    alone = asyncio.run(ask_calmly(base_url, callers, seconds))
    with greedy(orders) as told:
        beside, woken_late_ms = asyncio.run(_ask_watched(base_url, callers, seconds))
    time.sleep(TAIL_S)
    return _Round(
        alone_ms=p99_ms(alone),
        beside_ms=p99_ms(beside),
        beside_asking_elsewhere_ms=_measure_asking(base_url, callers, seconds, orders, told),
        woken_late_ms=woken_late_ms,
        failed=sum(each.status != 200 for each in beside),
    )


async def _ask_watched(base_url: str, callers: Sequence[tuple[str, str]], seconds: float) -> tuple[list[Answered], float]:
    """Run the nine, and measure how late this process wakes: that much of their waiting is not the service's."""
    late_s: list[float] = []

    async def watch() -> None:
        while True:
            due_at_s = time.monotonic() + LOOK_EVERY_S
            await asyncio.sleep(LOOK_EVERY_S)
            late_s.append(time.monotonic() - due_at_s)

    watching = asyncio.create_task(watch())
    answered = await ask_calmly(base_url, callers, seconds)
    watching.cancel()
    return answered, 1000 * percentile(late_s, 0.99)


def _measure_asking(base_url: str, callers: Sequence[tuple[str, str]], seconds: float, orders: Orders, told: Told) -> float:
    """Run the nine while the tenth sends the same load to another server."""
    count = max(1, told.count)
    with idle_server(told.octets // count) as elsewhere:
        same = structs.replace(orders, base_url=elsewhere, per_s=count / seconds)
        with greedy(same):
            return p99_ms(asyncio.run(ask_calmly(base_url, callers, seconds)))


def _add_key(account: Account) -> str:
    key = f"holder-{account.holder_id}@bench.example"
    operating.run(lambda context: holder_usecases.add_pix_key(context, account.holder_id, "EMAIL", key))
    return key


def _prepare(service: Installation, account: Account, key: str) -> int:
    """Fill long lists, and add an endpoint for the events."""
    for number in range(CHARGES_COUNT):
        payer = {"name": "\u0001" * 200, "tax_id": "52998224725"}
        body = {"amount": 1, "key": key, "payer": payer, "external_id": f"n{number}"}
        service.post("/v1/connect/charge", body, account.token)
    return service.add_endpoint(account, "http://127.0.0.1:9/refuse")
