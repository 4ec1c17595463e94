"""What a restore brings back may be another cell's by now: it is named, no money leaves it, and it is not read."""

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from pixconnect.adapters.rails.institution import InstitutionRail
from pixconnect.adapters.system import SystemClock
from pixconnect.assembly.institutions import read_text_file
from pixconnect.assembly.keep_running import running_beside
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.cell import HOME
from pixconnect.domain.institutions.account import Credential
from pixconnect.foundation.pool import connect
from pixconnect.foundation.privileges import SERVICE_ROLE
from pixconnect.usecases.frame.cells import Cells, UnreachableCells
from pixconnect.usecases.institutions import account as account_usecases
from pixconnect.usecases.institutions.account_naming import ALONE, find_twice, list_compared
from pixconnect.usecases.institutions.loss import recover_account, refuse_lost_elsewhere
from pixconnect.worker.accounts import AccountReaders
from pixconnect.worker.leases import SlotLeases
from support.account_shop import Shop
from support.cells import NAME, NUMBER
from support.live_cells import LiveCells, open_live_cells
from support.postgres import Addresses
from support.waiting import until

KEY = "loja@test.example"


@pytest.fixture
async def two(database: Addresses, other_database: Addresses) -> AsyncIterator[LiveCells]:
    async with open_live_cells(database, other_database) as made:
        yield made


async def bring_back(two: LiveCells, number: int = HOME) -> Shop:
    """A cell was put back to before its account was closed, which is in the other cell by now under another name."""
    shop = await two.open_shop(number, "loja", KEY)
    await two.add(NUMBER if number == HOME else HOME, "banco", keys=[KEY], others=ALONE)
    await lose(two, number)
    return shop


async def lose(two: LiveCells, number: int) -> None:
    await two.services[number].execute_as_owner(
        "insert into database_loss (reason, system_identifier, started_at, orders_count) values ('a test', 1, now(), 0)"
    )


async def close(two: LiveCells, number: int, name: str) -> None:
    await two.services[number].execute_as_owner(
        f"update institution_account set state = 'closed', revision = revision + 1 where name = '{name}'"
    )


def cells_of(two: LiveCells, away: UnreachableCells | None = None) -> Cells:
    cells = Cells(two.services[HOME].context, away or UnreachableCells())
    if away is None or NUMBER not in away.numbers:
        cells.add(NUMBER, two.services[NUMBER].context)
    return cells


async def compare_all(two: LiveCells) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    found = [(name, await list_compared(two.operators[number])) for number, name in ((HOME, "home"), (NUMBER, NAME))]
    return [(one.cells, one.names) for one in find_twice(found, read_text_file)]


async def test_what_two_cells_have_is_named(two: LiveCells) -> None:
    await two.add(HOME, "loja")
    other = dict(keys=["other@test.example"], receiving=Credential(client_id="branch"))
    await two.add(NUMBER, "filial", **other)
    assert await compare_all(two) == []
    await two.add(NUMBER, "banco", keys=[KEY], others=ALONE)
    assert await compare_all(two) == [(("home", NAME), ("loja", "banco"))]
    await close(two, HOME, "loja")
    assert await compare_all(two) == []
    # What has changed its keys and its client since is known by its name.
    await two.services[HOME].execute_as_owner("delete from institution_cell")
    await two.add(HOME, "filial", keys=[], receiving=Credential(client_id="before"), others=ALONE)
    assert await compare_all(two) == [(("home", NAME), ("filial", "filial"))]


@pytest.mark.parametrize("number", [HOME, NUMBER])
async def test_no_money_leaves_what_another_cell_has_or_may_have(two: LiveCells, number: int) -> None:
    shop, other = await bring_back(two, number), NUMBER if number == HOME else HOME
    operator, compared = two.operators[number], two.compare_in(number)

    async def recover() -> object:
        return await recover_account(operator, shop.there.open, "loja", compared, statement_was_read=True)

    async def resume() -> object:
        return await account_usecases.set_state(operator, "loja", "active", compared)

    async def refusal(do: Callable[[], Any]) -> str:
        with pytest.raises(errors.PixConnectError) as refused:
            await do()
        return refused.value.message

    for do in (recover, resume):
        assert "another cell has loja too" in await refusal(do)
        two.away.add(other)
        assert "gives no answer, so nothing was done" in await refusal(do)
        two.away.clear()
    await close(two, other, "banco")
    assert "was not read whole" in await refusal(recover)
    assert "`pixconnect database recovered --institution loja` resumes it" in await refusal(resume)


async def test_what_another_cell_has_or_may_have_is_not_read(two: LiveCells) -> None:
    shop, context = await bring_back(two), two.services[HOME].context
    lost = (await account_usecases.read_account(two.operators[HOME], "loja")).account

    async def ask(cells: Cells) -> None:
        await refuse_lost_elsewhere(context, cells, lost, read_text_file)

    with pytest.raises(errors.ServiceUnavailable, match="is in another cell too"):
        await ask(cells_of(two))
    away = UnreachableCells()
    away.numbers.add(NUMBER)
    with pytest.raises(errors.ServiceUnavailable, match="that may have the account loja gives no answer"):
        await ask(cells_of(two, away))
    unknown = UnreachableCells()
    unknown.are_known = False
    await close(two, NUMBER, "banco")
    with pytest.raises(errors.ServiceUnavailable, match="gives no answer"):
        await ask(cells_of(two, unknown))
    await ask(cells_of(two))
    # Where there is one cell nobody is asked, and what nothing has paused is read.
    await ask(Cells(context, UnreachableCells()))
    await refuse_lost_elsewhere(context, cells_of(two, away), shop.account, read_text_file)


async def test_a_worker_reads_it_once_the_other_one_is_closed(two: LiveCells) -> None:
    shop = await bring_back(two)
    shop.pay(1000, key=KEY)
    service, read_before = shop.live, len(shop.there.lists)

    async def connect_as_service() -> Any:
        return await connect(service.database.service_url, role=SERVICE_ROLE, schema="pixconnect", name="tests")

    leases = SlotLeases(connect_as_service, SystemClock())
    readers = AccountReaders(
        shop.context,
        leases,
        lambda opened, memory: InstitutionRail(opened.institution, memory, service.clock),
        refuse_to_read=partial(refuse_lost_elsewhere, shop.context, cells_of(two), read_file=read_text_file),
    )
    with capture_logs() as logs:
        async with running_beside(leases.run, readers.run):
            await until(lambda: any(line["log_level"] == "critical" for line in logs))
            assert len(shop.there.lists) == read_before
            await close(two, NUMBER, "banco")
            await until(lambda: len(shop.there.lists) > read_before)
