"""The worker of one account in a separate process, which runs once at a given instant and can be killed at a step.

A test that moves the clock cannot run a whole installation, which uses the machine's clock. The process dies as
suddenly: by ``kill -9``, with open connections to PostgreSQL and to the institution.
"""

import asyncio
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from support import killed_process, postgres
from support.service import open_service
from support.two_books import Here, MonthClock, open_accounts

ROOT = Path(__file__).resolve().parents[1]


class Orders(Struct, frozen=True, kw_only=True):
    owner_url: str
    service_url: str
    now: datetime
    account_id: int
    points: str
    """The folder of its kill points."""
    policy: dict[str, Any] = {}


async def run_once(orders: Orders, folder: Path) -> int:
    """Run a worker and return its exit status, which is negative if it was killed."""
    file = folder / "orders.json"
    file.write_bytes(msgspec.json.encode(orders))
    command = (sys.executable, "-m", "support.day_worker", str(file))
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT)
    return await process.wait()


async def _work(orders: Orders) -> None:
    database = postgres.Addresses(owner_url=orders.owner_url, service_url=orders.service_url)
    clock = MonthClock(orders.now)
    async with open_service(database, clock=clock, is_sandbox=False, has_rail=False, **orders.policy) as live:
        accounts = open_accounts(live)
        opened = await accounts.find(orders.account_id)
        assert opened is not None, "a loss paused the account"
        await Here(live=live, account=opened.account, house=None, accounts=accounts).work()
        await accounts.close()


if __name__ == "__main__":
    told = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Orders)
    killed_process.watch_days(Path(told.points))
    asyncio.run(_work(told))
