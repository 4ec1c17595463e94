"""The guide's receivers, as programs: an event has its effect once, and only known orders paid in full are shipped."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import asyncpg
import httpx2
import pytest

from pixconnect_client.testing.holder import Pix
from support import pages
from support.postgres import Addresses
from support.waiting import PATIENCE_S

pytestmark = [pytest.mark.journey, pytest.mark.long]

BLOCKS = pages.read_blocks(pages.ROOT / "docs" / "guides" / "receive-exactly-once.md")
TABLES = next(block.text for block in BLOCKS if block.language == "sql")
SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
FRAMEWORKS = ("flask", "starlette", "django")


def code_of(framework: str) -> str:
    (code,) = (block.text for block in BLOCKS if block.language == "python" and f"from {framework}" in block.text)
    return code


@contextmanager
def receiving(framework: str, database: str, folder: Path, pix: Pix) -> Iterator[str]:
    """Run the framework's receiver; yields its address."""
    (folder / "shop.py").write_text(code_of(framework), encoding="utf-8")
    environment = os.environ | pix.environment | {"DATABASE": database, "WEBHOOK_SECRET": SECRET}
    command = [sys.executable, str(pages.ROOT / "support" / "receiver.py"), framework, str(folder / "shop.py")]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            yield f"http://127.0.0.1:{int(program.stdout.readline())}/pix"
        finally:
            program.kill()


class Shop:
    """A shop's database with one order, in SQLite or in PostgreSQL."""

    def __init__(self, address: str) -> None:
        self.address = address

    def make_tables(self) -> None:
        self.ask(TABLES)

    def order(self) -> None:
        self.ask("insert into shop_order (id, amount) values ('order-7', 1234), ('order-8', 9999)")

    def ask(self, script: str, query: str = "") -> list[tuple[object, ...]]:
        if self.address.startswith("postgresql:"):
            return asyncio.run(self._ask_postgres(script, query))
        with closing(sqlite3.connect(self.address)) as connection:
            connection.executescript(script)
            return connection.execute(query or "select 1").fetchall()

    async def _ask_postgres(self, script: str, query: str) -> list[tuple[object, ...]]:
        connection = await asyncpg.connect(self.address)
        try:
            if script:
                await connection.execute(script)
            return [tuple(row) for row in await connection.fetch(query or "select 1")]
        finally:
            await connection.close()

    def read(self) -> dict[str, list[tuple[object, ...]]]:
        return {
            "paid": self.ask("", "select id from shop_order where paid_at is not null"),
            "jobs": self.ask("", "select kind, order_id from job order by order_id"),
            "seen": self.ask("", "select count(*) from seen_event"),
        }


def wait_for_attempts(pix: Pix, endpoint_id: int, count: int) -> list[int | None]:
    """The receiver's answers, once it has had so many requests."""
    until_s = time.monotonic() + PATIENCE_S
    while True:
        deliveries = list(pix.client.deliveries.list(endpoint_id))
        statuses = [attempt.status_code for one in deliveries for attempt in one.attempts]
        if len(statuses) >= count or time.monotonic() > until_s:
            return statuses
        time.sleep(0.01)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_one_event_three_times_has_one_effect(framework: str, pix: Pix, database: Addresses, tmp_path: Path) -> None:
    shop = Shop(database.owner_url if framework == "starlette" else str(tmp_path / "shop.sqlite"))
    if framework != "django":  # it makes its tables itself
        shop.make_tables()
    with receiving(framework, shop.address, tmp_path, pix) as url:
        shop.order()
        endpoint = pix.client.endpoints.create(url, ["qrcode.pending", "qrcode.approved"], secret=SECRET)
        assert httpx2.post(url, content=b"{}", headers={"webhook-id": "evt_1"}, timeout=60).status_code == 400
        for name in ("order-7", "order-8", "unknown"):
            pix.pay(pix.client.charges.create(1234, pix.key, external_id=name))

        assert wait_for_attempts(pix, endpoint.id, 6) == [204] * 6
        once = shop.read()
        jobs = [("ship", "order-7"), ("check", "order-8"), ("check", "unknown")]
        assert once == {"paid": [("order-7",)], "jobs": jobs, "seen": [(6,)]}
        for count in (12, 18):
            for delivery in list(pix.client.deliveries.list(endpoint.id)):
                pix.client.deliveries.redeliver(delivery.id)
            assert wait_for_attempts(pix, endpoint.id, count) == [204] * count
        assert shop.read() == once
