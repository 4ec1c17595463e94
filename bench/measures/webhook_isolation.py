"""How much bad receivers delay good ones.

``isolation``: ten holders with twenty endpoints each, 500 deliveries a second at a pace that nothing slows down. In turn all
200 answer, and then ten hang, ten drip one octet a second, and ten refuse connections. Told are milliseconds from commit to
arrival at the 170 that are good in both (``p99_ms`` of each round), their ratio by round, and its median.
"""

import asyncio
import statistics
import time
from collections.abc import Iterator, Sequence

from bench.figures import Row, percentile
from bench.harness.installation import Account, Installation, installed
from bench.load.events import Writer, writing
from bench.load.receivers import receiving
from bench.measures.webhook_speed import ENDPOINTS_OF_HOLDER, lags_since_commit_s

HOLDERS_COUNT = 10
DELIVERIES_PER_SECOND = 500
BAD_URLS = ("{url}/hang", "{url}/drip", "http://127.0.0.1:9/refuse")
"""Of each holder's first three endpoints."""
_EXCHANGE_S = 15
_TAIL_S = 3


def measure_isolation(seconds: float, rounds: int) -> Iterator[Row]:
    """Without and with bad receivers in turn."""
    p99_ms: dict[bool, list[float]] = {False: [], True: []}
    counts: dict[bool, int] = {False: 0, True: 0}
    with receiving(HOLDERS_COUNT * ENDPOINTS_OF_HOLDER) as receivers, installed(is_proved=False) as service:
        accounts = service.onboard(HOLDERS_COUNT)
        for _ in range(rounds):
            for is_hostile in (False, True):
                _put_endpoints(service, accounts, receivers.urls, is_hostile=is_hostile)
                writer = asyncio.run(_write(service, accounts, seconds))
                time.sleep(_TAIL_S)
                lags_s = lags_since_commit_s(writer, receivers)
                expected_count = len(writer.committed_at_s) * (ENDPOINTS_OF_HOLDER - len(BAD_URLS))
                assert len(lags_s) >= expected_count, f"{len(lags_s)} of {expected_count} good deliveries"
                p99_ms[is_hostile].append(1000 * percentile(lags_s, 0.99))
                counts[is_hostile] += len(lags_s)
                asyncio.run(_remove_endpoints(service))
                if is_hostile:
                    time.sleep(_EXCHANGE_S)  # until nothing hangs any more
    ratios = [bad / good for good, bad in zip(p99_ms[False], p99_ms[True], strict=True)]
    yield {
        "name": "isolation",
        "seconds": seconds,
        "deliveries_per_second": DELIVERIES_PER_SECOND,
        "good_deliveries_without": counts[False],
        "good_deliveries_with": counts[True],
        "p99_ms_without": p99_ms[False],
        "p99_ms_with": p99_ms[True],
        "ratios": ratios,
        "ratio": statistics.median(ratios),
    }


def _put_endpoints(
    service: Installation, accounts: Sequence[Account], urls: Sequence[str], *, is_hostile: bool
) -> None:
    for number, url in enumerate(urls):
        place = number % ENDPOINTS_OF_HOLDER
        chosen = f"{url}/count"
        if place < len(BAD_URLS):
            chosen = BAD_URLS[place].format(url=url) if is_hostile else f"{url}/quiet"
        service.add_endpoint(accounts[number // ENDPOINTS_OF_HOLDER], chosen)


async def _write(service: Installation, accounts: Sequence[Account], seconds: float) -> Writer:
    events_per_second = DELIVERIES_PER_SECOND / ENDPOINTS_OF_HOLDER
    async with writing(service) as writer:
        holder_ids = [account.holder_id for account in accounts]
        await writer.write_steadily(holder_ids, range(1, round(seconds * events_per_second) + 1), events_per_second)
        return writer


async def _remove_endpoints(service: Installation) -> None:
    """And with them what is still to be told to the bad ones."""
    connection = await service.connect()
    await connection.execute("delete from webhook_endpoint")
    await connection.execute("update delivery set status = 'failed', due_at = null where status = 'pending'")
    await connection.close()
