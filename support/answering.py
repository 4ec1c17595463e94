"""Confirm the pending answer on an account, in a process that can be killed at each step."""

import asyncio
import sys
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from pixconnect.features.cases.service.adjustment import confirm_proposal
from support import killed_process, postgres
from support.operators import as_operator
from support.service import FakeClock, open_service

ROOT = Path(__file__).resolve().parents[1]


class Confirmation(Struct, frozen=True, kw_only=True):
    owner_url: str
    service_url: str
    now: datetime
    code: str
    operator: str
    points: str
    """The folder of its kill points."""


async def confirm(confirmation: Confirmation, folder: Path) -> int:
    """Run the process and return its exit status, which is negative if it was killed."""
    file = folder / "confirmation.json"
    file.write_bytes(msgspec.json.encode(confirmation))
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "support.answering", str(file), cwd=ROOT)
    return await process.wait()


async def _confirm(wanted: Confirmation) -> None:
    database = postgres.Addresses(owner_url=wanted.owner_url, service_url=wanted.service_url)
    async with open_service(database, clock=FakeClock(wanted.now), is_sandbox=False, has_rail=False) as live:
        operator = as_operator(live.context, wanted.operator)
        await confirm_proposal(operator, live.context, wanted.code)


if __name__ == "__main__":
    told = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Confirmation)
    killed_process.watch_answers(Path(told.points))
    asyncio.run(_confirm(told))
