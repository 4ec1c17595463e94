"""No key and no account is of two cells, whoever dies on the way; the cell decides, and the home cell follows it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from msgspec import Struct, structs
from structlog.testing import capture_logs

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.cell import cell_of_id
from pixconnect.store.running import name_cell as name_store
from pixconnect.store.running.name_cell import NameKind
from pixconnect.usecases.frame import name_claim
from pixconnect.usecases.frame.operator import Operator
from pixconnect.usecases.money import holder as holder_usecases
from pixconnect.usecases.running.name_sweep import NameSweep
from support import cells
from support.operators import as_operator
from support.postgres import Addresses
from support.records import a_new_holder
from support.service import Service, open_service

KEY = "maria@shop.example"
AT_ONCE = timedelta(0)


class Two(Struct, frozen=True):
    """An installation of two cells."""

    home: Service
    second: Service
    at_home: Operator
    at_second: Operator
    number: int = 1

    async def claimed(self) -> dict[str, int]:
        keys = await name_store.find_cells(self.home.context.pool, "key", [KEY])
        return keys | await name_store.find_cells(self.home.context.pool, "account", ["1001", "1002"])

    async def sweep(self, forgotten_after: timedelta = AT_ONCE, page_max: int = 1000) -> None:
        sweep = NameSweep(self.home.context.pool, forgotten_after, page_max)
        while await sweep.sweep(self.number, self.second.context.pool):
            pass


@pytest.fixture
async def two(database: Addresses, postgres_server: Addresses) -> AsyncIterator[Two]:
    async with cells.beside(postgres_server) as other:
        await cells.execute(database, "insert into installation (mode) values ('sandbox')")
        connection = await asyncpg.connect(database.owner_url, server_settings={"search_path": "pixconnect"})
        known = await cells.know(connection, "second", other)
        await connection.close()
        await cells.let_claim(other, known)
        async with open_service(database) as home, open_service(other, cell=known.number) as second:
            yield Two(home, second, as_operator(home.context), as_operator(second.context, home=home.context))


async def open_at(operator: Operator, account_number: str) -> int:
    return (await holder_usecases.create_holder(operator, a_new_holder(account_number=account_number))).id


async def test_an_account_number_is_one_holders_in_all_cells(two: Two) -> None:
    here, there = await open_at(two.at_home, "1001"), await open_at(two.at_second, "1002")
    assert [cell_of_id(here), cell_of_id(there)] == [0, 1]
    # The home cell knows its own by having them.
    assert await two.claimed() == {"1002": 1}
    for operator, number in ((two.at_home, "1002"), (two.at_second, "1001"), (two.at_second, "1002")):
        with pytest.raises(errors.InvalidAccount, match="another holder has it"):
            await open_at(operator, number)


async def test_a_key_is_one_holders_in_all_cells(two: Two) -> None:
    here, there = await open_at(two.at_home, "1001"), await open_at(two.at_second, "1002")
    await holder_usecases.add_pix_key(two.at_second, there, "EMAIL", KEY)
    # Doing it twice changes nothing.
    await holder_usecases.add_pix_key(two.at_second, there, "EMAIL", KEY)
    with pytest.raises(errors.InvalidPixKey, match="another holder has it"):
        await holder_usecases.add_pix_key(two.at_home, here, "EMAIL", KEY)
    await holder_usecases.add_pix_key(two.at_home, here, "EMAIL", "ana@shop.example")
    with pytest.raises(errors.InvalidPixKey, match="another holder has it"):
        await holder_usecases.add_pix_key(two.at_second, there, "EMAIL", "ana@shop.example")


async def test_of_two_cells_that_give_a_key_at_once_one_has_it(two: Two) -> None:
    here, there = await open_at(two.at_home, "1001"), await open_at(two.at_second, "1002")
    for number in range(20):
        key = f"k{number}@shop.example"
        outcomes = await asyncio.gather(
            holder_usecases.add_pix_key(two.at_home, here, "EMAIL", key),
            holder_usecases.add_pix_key(two.at_second, there, "EMAIL", key),
            return_exceptions=True,
        )
        assert sorted(isinstance(outcome, errors.InvalidPixKey) for outcome in outcomes) == [False, True], outcomes


async def test_a_key_that_was_removed_at_home_is_given_to_another_cell_a_minute_later(two: Two) -> None:
    here, there = await open_at(two.at_home, "1001"), await open_at(two.at_second, "1002")
    await holder_usecases.add_pix_key(two.at_home, here, "EMAIL", KEY)
    await holder_usecases.remove_pix_key(two.at_home, here, KEY)
    with pytest.raises(errors.InvalidPixKey, match="led to another holder until a moment ago"):
        await holder_usecases.add_pix_key(two.at_second, there, "EMAIL", KEY)
    await two.home.execute_as_owner("update removed_pix_key set removed_at = removed_at - interval '1 minute'")
    await holder_usecases.add_pix_key(two.at_second, there, "EMAIL", KEY)
    assert (await two.claimed())[KEY] == 1


async def test_a_key_that_was_removed_in_another_cell_is_forgotten_a_minute_later(two: Two) -> None:
    here, there = await open_at(two.at_home, "1001"), await open_at(two.at_second, "1002")
    await holder_usecases.add_pix_key(two.at_second, there, "EMAIL", KEY)
    await two.sweep()
    assert (await two.claimed())[KEY] == 1
    await holder_usecases.remove_pix_key(two.at_second, there, KEY)
    await two.sweep()
    with pytest.raises(errors.InvalidPixKey, match="another holder has it"):
        await holder_usecases.add_pix_key(two.at_home, here, "EMAIL", KEY)
    await two.second.execute_as_owner("update removed_pix_key set removed_at = removed_at - interval '1 minute'")
    # Nobody can know that no claim of a moment ago is about to be used.
    await two.sweep(forgotten_after=name_claim.FORGOTTEN_AFTER)
    assert KEY in await two.claimed()
    await two.sweep()
    assert await two.claimed() == {"1002": 1}
    await holder_usecases.add_pix_key(two.at_home, here, "EMAIL", KEY)


class KilledError(BaseException):
    """The process dies here."""


async def test_who_dies_between_claim_and_cell_leaves_a_claim_that_is_forgotten(two: Two) -> None:
    class _Dying:
        """Connections of a process that dies as soon as it wants one."""

        def acquire(self) -> Any:
            raise KilledError

    with pytest.raises(KilledError):
        await open_at(structs.replace(two.at_second, pool=_Dying()), "1001")
    assert await two.claimed() == {"1001": 1}
    with pytest.raises(errors.InvalidAccount):
        await open_at(two.at_home, "1001")
    await two.sweep()
    assert await two.claimed() == {}
    await open_at(two.at_home, "1001")


async def test_who_was_stopped_after_the_claim_writes_nothing(two: Two) -> None:
    class _Late:
        """A clock that stood still until the cell was written."""

        def __init__(self, clock: Any) -> None:
            self._clock, self._passed_s = clock, 0.0

        def monotonic_s(self) -> float:
            self._passed_s += name_claim.LASTS_S + 1
            return self._passed_s

        def __getattr__(self, name: str) -> Any:
            return getattr(self._clock, name)

    late: Any = _Late(two.at_second.clock)
    with pytest.raises(errors.ServiceUnavailable, match="nothing was done"):
        await open_at(structs.replace(two.at_second, clock=late), "1001")
    assert await two.second.fetch("select id from holder") == []


@pytest.mark.parametrize("kind", ["account", "key"])
async def test_what_the_home_cell_has_forgotten_is_claimed_anew(two: Two, kind: NameKind) -> None:
    there = await open_at(two.at_second, "1002")
    await holder_usecases.add_pix_key(two.at_second, there, "EMAIL", KEY)
    before = await two.claimed()
    await two.home.execute_as_owner(f"delete from {kind}_cell")
    assert await two.claimed() != before
    await two.sweep(page_max=1)
    assert await two.claimed() == before


async def test_a_name_in_two_cells_is_told_and_stays_the_home_cells(two: Two) -> None:
    here, there = await open_at(two.at_home, "1001"), await open_at(two.at_second, "1002")
    await holder_usecases.add_pix_key(two.at_second, there, "EMAIL", KEY)
    await two.home.execute_as_owner("delete from key_cell")
    await holder_usecases.add_pix_key(two.at_home, here, "EMAIL", KEY)
    with capture_logs() as logs:
        await two.sweep()
    assert KEY not in await two.claimed()
    assert [(line["event"], line["holder_id"]) for line in logs] == [("a name leads to holders of two cells", there)]
    assert KEY not in str(logs)
