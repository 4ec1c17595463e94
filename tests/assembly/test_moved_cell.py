"""A cell that is moved while its holders work: they wait for a moment, and nothing that they were answered is missing there."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import Struct, field

from support import cells, postgres
from support.cells import NAME, NUMBER
from support.command_line import CommandLine
from support.house import House, Resident, open_house
from support.logical_postgres import open_logical_server
from support.postgres import Addresses
from support.webhooks import eventually

pytestmark = pytest.mark.long

_WRITERS = 8
_TARGETS = 2
_SILENCE_MAX_S = 10
"""Two on a machine of its own: what is measured there stands in the guide."""
_TRIES_MAX = 5
_UNKNOWN = "OUTCOME_UNKNOWN"


@pytest.fixture
async def server() -> AsyncIterator[Addresses]:
    async with open_logical_server() as (_, addresses):
        yield addresses


class Load(Struct):
    """What holders were answered."""

    charges: set[int] = field(default_factory=set)
    deposits_count: int = 0
    unknown_count: int = 0
    answered_at_s: list[float] = field(default_factory=list)

    async def write(self, holder: Resident, stop: asyncio.Event) -> None:
        while not stop.is_set():
            for path, body in (
                ("/v1/connect/charge", {"amount": 100, "key": holder.key}),
                ("/sandbox/v1/deposits", {"amount": 1}),
            ):
                answer = await holder.ask("POST", path, body)
                if answer.status_code == 200:
                    self.answered_at_s.append(time.monotonic())
                    if "charge" in path:
                        self.charges.add(answer.json()["data"]["id"])
                    else:
                        self.deposits_count += 1
                else:
                    error = answer.json()["error"]["code"]
                    assert error in {"SERVICE_UNAVAILABLE", _UNKNOWN}, answer.text
                    self.unknown_count += error == _UNKNOWN
                    await asyncio.sleep(0.01)

    @property
    def silence_s(self) -> float:
        """The longest time in which nobody was answered."""
        return max(later - earlier for earlier, later in zip(self.answered_at_s, self.answered_at_s[1:], strict=False))


async def test_nothing_is_lost_and_nothing_is_there_twice_however_often_a_cell_moves_under_load(
    server: Addresses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, old = [await postgres.make_copy(server, name) for name in ("home", "old")]
    pixconnect = CommandLine(home, tmp_path / "operator", PIXCONNECT_OWNER_DATABASE_URL=home.owner_url)
    async with open_house(home, old, tmp_path, monkeypatch) as house:
        there = await house.open_holder(NUMBER, funds_cents=0)
        # The servers reach each other without a wire.
        await house.lead_to(old)
        await eventually(lambda: begun_twice(house))
        load, stop, silences = Load(), asyncio.Event(), list[float]()
        writers = [asyncio.create_task(load.write(there, stop)) for _ in range(_WRITERS)]
        for number in range(_TARGETS):
            new = await postgres.make_empty(server, f"new_{number}")
            load.answered_at_s.clear()
            words = ("cell", "move", NAME, "--to", cells.address_of(new))
            # A machine that has much else to do may be too slow for the moment in which the cell is closed.
            for _ in range(_TRIES_MAX):
                done = await asyncio.to_thread(pixconnect.run, *words)
                if "did not arrive in time" not in done.stderr:
                    break
            assert done.returncode == 0, done.stderr
            moved_at_s = time.monotonic()
            while load.answered_at_s[-1] < moved_at_s:  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(0.1)
            silences.append(load.silence_s)
        stop.set()
        await asyncio.gather(*writers)
        await check(house, there, new, load)
    assert max(silences) < _SILENCE_MAX_S, silences


async def begun_twice(house: House) -> bool:
    return house.begun.count(NUMBER) == 2


async def check(house: House, holder: Resident, new: Addresses, load: Load) -> None:
    found = await cells.fetch_value(new, "select array_agg(id) from charge")
    assert load.charges <= set(found)
    deposits_count = await cells.fetch_value(new, "select count(*) from deposit")
    assert 0 <= len(found) - len(load.charges) + deposits_count - load.deposits_count <= load.unknown_count
    assert deposits_count >= load.deposits_count
    assert (await holder.done("GET", "/v1/connect/balance"))["available_funds"] == deposits_count
    assert not await cells.fetch_value(new, "select count(*) from database_loss")
