"""One piece of work on an account in a separate process, at a given instant, which can be killed at a step.

A test that moves the clock cannot run a whole installation, which uses the machine's clock. The process dies as
suddenly: by ``kill -9``, with open connections to PostgreSQL and to the institution.
"""

import asyncio
import sys
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from pixconnect.features.cases.service.proposal import confirm_proposal
from support import killed_process
from support.operators import as_operator
from support.postgres import Addresses
from support.service import open_service
from support.two_books import Here, MonthClock, open_accounts

ROOT = Path(__file__).resolve().parents[1]


class Work(Struct, frozen=True, kw_only=True):
    database: Addresses
    now: datetime
    points: str  # the folder of its kill points


class DayWork(Work, frozen=True, kw_only=True, tag=True):
    """One round of the account's worker."""

    account_id: int


class Confirmation(Work, frozen=True, kw_only=True, tag=True):
    """An operator confirms the pending answer."""

    code: str
    operator: str


async def run(work: DayWork | Confirmation, folder: Path) -> int:
    """Run the process and return its exit status, which is negative if it was killed."""
    file = folder / "work.json"
    file.write_bytes(msgspec.json.encode(work))
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "support.dying_work", str(file), cwd=ROOT)
    return await process.wait()


async def _do(work: DayWork | Confirmation) -> None:
    killed_process.watch_steps(Path(work.points), "work" if isinstance(work, DayWork) else "confirm")
    clock = MonthClock(work.now)
    async with open_service(work.database, clock=clock, is_sandbox=False, has_rail=False) as live:
        if isinstance(work, Confirmation):
            await confirm_proposal(as_operator(live.context, work.operator), live.context, work.code)
            return
        accounts = open_accounts(live)
        opened = await accounts.find(work.account_id)
        assert opened is not None, "a loss paused the account"
        await Here(live=live, account=opened.account, house=None, accounts=accounts).work()
        await accounts.close()


if __name__ == "__main__":
    asyncio.run(_do(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=DayWork | Confirmation)))
