"""Webhook throughput of one worker, with receivers that do nothing but answer.

- ``deliveries_<receivers>_<plain or tls>``: deliveries a second to one receiver, to 200 (ten holders with twenty
  endpoints each) and to 10,000 (500 holders), over kept connections; all are due at once, and more than can be
  delivered in the time. CPU microseconds of a delivery, by process of the service, and of the receivers.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figures import Row
from bench.harness.installation import installed
from bench.harness.processes import CpuMeter
from bench.load.events import writing
from bench.load.receivers import Receivers, receiving

ENDPOINTS_OF_HOLDER = 20
DELIVERIES_PER_SECOND_MAX = 12_000
_GROUP = 500
_WRITTEN_PER_SECOND_MIN = 3000


def measure_deliveries(seconds: float) -> Iterator[Row]:
    """To one receiver and to 200, plain and over TLS, and to 10,000."""
    for receivers_count, is_tls in ((1, False), (1, True), (200, False), (200, True), (10_000, False)):
        with tempfile.TemporaryDirectory(prefix="pixconnect-tls-") as folder:
            Path(folder).chmod(0o711)
            tls_folder = Path(folder) if is_tls else None
            with receiving(receivers_count, tls_folder) as receivers:
                yield _measure_deliveries(receivers, seconds, tls_folder)


def _measure_deliveries(receivers: Receivers, seconds: float, tls_folder: Path | None) -> Row:
    trusted = {"SSL_CERT_FILE": str(tls_folder / "ca.pem")} if tls_folder else {}
    with installed(None, is_proved=False, **trusted) as service:
        per_holder = min(ENDPOINTS_OF_HOLDER, len(receivers.urls))
        accounts = service.onboard(len(receivers.urls) // per_holder)
        for number, url in enumerate(receivers.urls):
            service.add_endpoint(accounts[number // per_holder], f"{url}/count")
        events_count = round(seconds * DELIVERIES_PER_SECOND_MAX / per_holder / len(accounts))
        due_in_s = 3 + events_count * len(accounts) * per_holder**0.5 / _WRITTEN_PER_SECOND_MIN
        due_at_s = time.monotonic() + due_in_s

        async def write() -> None:
            async with writing(service) as writer:
                for account in accounts:
                    for first in range(1, events_count + 1, _GROUP):
                        resource_ids = range(first, min(first + _GROUP, events_count + 1))
                        await writer.write(account.holder_id, resource_ids, due_at_s - time.monotonic())
            connection = await service.connect()  # do the maintenance after so many writes now, not during the measurement
            await connection.execute("vacuum (analyze) event, delivery")
            await connection.execute("checkpoint")
            await connection.close()

        asyncio.run(write())
        deliveries_count = events_count * len(accounts) * per_holder
        time.sleep(max(0.0, due_at_s - time.monotonic()))
        meter = CpuMeter(service.process.pid, receivers=receivers.pid)
        early_count, started_s = receivers.count(), time.monotonic()
        while time.monotonic() - started_s < seconds and receivers.count() < deliveries_count:
            time.sleep(0.1)
        took_s, count = time.monotonic() - started_s, receivers.count() - early_count
        return {
            "name": f"deliveries_{len(receivers.urls)}_{'tls' if tls_folder else 'plain'}",
            "seconds": took_s,
            "deliveries": count,
            "per_second": count / took_s,
            **meter.cost(count),
        }
