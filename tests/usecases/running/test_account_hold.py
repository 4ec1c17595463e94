"""A cell with an account at an institution moves: no call goes on behind its gate, and what is accepted then leaves later."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta

import asyncpg
import pytest
from msgspec import Struct, structs

from pixconnect.domain.institutions.account import HOLD_LASTS
from pixconnect.domain.money.transfer import KeyTransferRequest, Transfer
from pixconnect.foundation.pool import Connection
from pixconnect.store.institutions import account_hold as hold_store
from pixconnect.store.running import cell_copy
from pixconnect.usecases.frame.cells import NO_ANSWER
from pixconnect.usecases.institutions import account as account_usecases
from pixconnect.usecases.institutions.open_accounts import OpenAccounts
from pixconnect.usecases.money import transfer as transfer_usecases
from pixconnect.usecases.running import account_hold
from pixconnect.usecases.running.cell_move import move_cell
from pixconnect.usecases.running.installation import InstallationError
from support import cells, postgres
from support.account_shop import Shop
from support.books import check_books
from support.cell_places import BOUNDS, Place, kill, serial
from support.cells import NUMBER
from support.dying import KilledError, die
from support.live_cells import LiveCells, open_live_cells
from support.postgres import Addresses
from support.service import open_service
from usecases.institutions.test_callback import reading

pytestmark = pytest.mark.long

KEY = "loja@test.example"


class Moving(Struct, frozen=True):
    """A live cell that is to move, with an account there from which money leaves."""

    place: Place
    cells: LiveCells
    shop: Shop

    async def send(self, cents: int = 100) -> Transfer:
        request = KeyTransferRequest(amount_cents=cents, key="joana@pix.example", key_type="EMAIL")
        return (await transfer_usecases.start_transfer(self.shop.context, self.shop.house, request)).transfer

    async def read_held(self) -> datetime | None:
        return await cells.fetch_value(self.place.old, "select held_at from institution_account")

    async def wait_until_calling(self) -> None:
        while not any(call.startswith("send") for call in self.shop.there.calls):  # noqa: ASYNC110  as below
            await asyncio.sleep(0.01)

    async def wait_until_held(self) -> None:
        while await self.read_held() is None:  # noqa: ASYNC110  the server tells nobody
            await asyncio.sleep(0.02)

    @asynccontextmanager
    async def opened_there(self) -> AsyncIterator[Shop]:
        """The account where the cell has moved to."""
        clock, there = self.shop.live.clock, self.shop.there
        async with open_service(self.place.new, clock=clock, cell=NUMBER, is_sandbox=False, has_rail=False) as service:
            pool, box = service.context.pool, service.context.secret_box
            accounts = OpenAccounts(pool, box, there.open, clock.monotonic_s)
            context = structs.replace(service.context, institutions=accounts)
            yield Shop(live=service, there=there, account=self.shop.account, context=context, house=self.shop.house)


@pytest.fixture
async def moving(server: Addresses) -> AsyncIterator[Moving]:
    number = next(serial)
    home, old, new = [await postgres.make_copy(server, f"{name}_{number}") for name in ("home", "old", "new")]
    # A live database has no tables of the simulated network.
    for each in (home, old, new):
        await cells.execute(each, "drop schema sandbox cascade")
    async with open_live_cells(home, old) as made:
        shop = await made.open_shop(NUMBER, "loja", KEY)
        shop.pay(10_000, key=KEY)
        await shop.read()
        place = Place(server=server, home=home, old=old, new=new, mode="live")
        await place.begin()
        yield Moving(place, made, shop)


async def test_an_order_that_is_being_handed_over_is_answered_before_the_cell_is_closed(moving: Moving) -> None:
    place, shop = moving.place, moving.shop
    answers = asyncio.Event()
    shop.there.before_answer = answers.wait
    sent = await moving.send()
    handing_over = asyncio.create_task(shop.move_orders())
    await moving.wait_until_calling()
    move = asyncio.create_task(place.move(makes_tables=False))
    await moving.wait_until_held()
    # It is accepted, and nothing leaves; nor does the cell close, however long the institution takes.
    waiting = await moving.send(200)
    await asyncio.sleep(1)
    assert not move.done()
    row = await place.read_row()
    assert (row.state, await place.has_database(row.database)) == ("MOVING", True)
    answers.set()
    await handing_over
    # The cell may be closed by now.
    with suppress(*NO_ANSWER):
        await shop.move_orders()
    assert [pix.amount_cents for pix in shop.there.paid] == [100]
    assert (await move).address == place.target
    async with moving.opened_there() as there:
        assert await there.live.fetch("select held_at, state from institution_account") == [(None, "active")]
        rows = await there.live.fetch("select id, status from transfer where direction = 'OUT' order by id")
        assert [tuple(each) for each in rows] == [(sent.id, "CONFIRMED"), (waiting.id, "PROCESSING")]
        there.live.clock.advance(seconds=5)  # type: ignore[attr-defined]  it is a test's
        await there.move_orders()
        await there.move_orders()
        assert [pix.amount_cents for pix in there.there.paid] == [100, 200]
        await check_books(there.live)


async def test_what_a_dead_process_has_called_keeps_nobody_waiting_for_ever(moving: Moving) -> None:
    place, shop = moving.place, moving.shop

    async def die_there() -> None:
        raise KilledError

    shop.there.before_answer = die_there
    await moving.send()
    with pytest.raises(KilledError):
        await shop.move_orders()
    assert [row["state"] for row in await shop.live.fetch("select state from rail_step")] == ["calling"]
    said = list[str]()
    async with place.moving(makes_tables=False) as move:
        bounds = structs.replace(BOUNDS, calls_max_s=1, silent_max_s=0.1)
        moved = await move_cell(structs.replace(move, say=said.append, bounds=bounds), cells.NAME, place.target)
    assert moved.address == place.target
    assert said[0] == "waiting for answers of institutions to what was sent before, of 1 orders"
    assert said[-1].startswith("no call at an institution can be under way any more")
    async with moving.opened_there() as there:
        rows = await there.live.fetch("select status from transfer where direction = 'OUT'")
        assert [row["status"] for row in rows] == ["PROCESSING"], "nobody has said that it was never taken"


async def test_money_leaves_again_where_the_move_is_undone_cut_off_or_taken_back(
    moving: Moving, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, operator = moving.place, moving.cells.operators[NUMBER]
    late = structs.replace(place, bounds=structs.replace(BOUNDS, gate_max_s=0))
    with pytest.raises(InstallationError, match="is served where it was"):
        await late.move(makes_tables=False)
    assert await moving.read_held() is None
    # Whoever pauses an account means it, whatever moves.
    await account_usecases.set_state(operator, "loja", "paused")
    for is_taken_back in (False, True):
        with monkeypatch.context() as patch:
            kill(patch, cell_copy, "pause", dict(before=True))
            die(account_hold, "_let_send", patch, before=True)
            with pytest.raises(KilledError):
                await place.move(makes_tables=False)
        assert await moving.read_held() is not None
        account = (await account_usecases.read_account(operator, "loja")).account
        assert (account.state, account.paused_because, account.held_at is None) == ("paused", None, False)
        if is_taken_back:
            await place.cancel()
            assert (
                await moving.read_held(),
                await cells.fetch_value(place.old, "select state from institution_account"),
            ) == (
                None,
                "paused",
            )
        else:
            # Who goes on lets it leave until the cell is about to be closed.
            with monkeypatch.context() as patch:
                die(hold_store, "hold_all", patch, before=True)
                with pytest.raises(KilledError):
                    await place.move(makes_tables=False)
            assert await moving.read_held() is None


async def test_what_leaves_while_the_cell_moves_is_paid_once_by_workers_at_either_place(moving: Moving) -> None:
    place, shop = moving.place, moving.shop
    sums = range(100, 110)

    # The cell is not closed before what is being called has an answer, so it can be seen held however slow the machine is.
    answers = asyncio.Event()
    shop.there.before_answer = answers.wait
    async with reading(shop):
        for cents in sums[:5]:
            await moving.send(cents)
        await moving.wait_until_calling()
        move = asyncio.create_task(place.move(makes_tables=False))
        await moving.wait_until_held()
        answers.set()
        for cents in sums[5:]:
            # As its caller would, until the cell is closed.
            with suppress(*NO_ANSWER):
                await moving.send(cents)
        assert (await move).address == place.target
    async with moving.opened_there() as there, reading(there):
        clock = there.live.clock
        open_count = "select count(*) from transfer where status = 'PROCESSING'"
        async with asyncio.timeout(120):
            while (await there.live.fetch(open_count))[0]["count"]:
                clock.advance(seconds=1)  # type: ignore[attr-defined]  it is a test's
                await asyncio.sleep(0.1)
        rows = await there.live.fetch("select amount_cents, status from transfer where direction = 'OUT' order by id")
        assert {row["status"] for row in rows} == {"CONFIRMED"}
        assert len(rows) >= 5
        assert sorted(pix.amount_cents for pix in there.there.paid) == [row["amount_cents"] for row in rows]
        await check_books(there.live)


async def test_a_hold_that_nobody_ends_is_over_after_five_minutes(moving: Moving) -> None:
    place, shop = moving.place, moving.shop
    await moving.send()
    await cells.execute(
        place.old, "update institution_account set held_at = now() - interval '290 seconds', revision = 7"
    )
    await shop.move_orders()
    assert shop.there.paid == []
    await cells.execute(
        place.old, "update institution_account set held_at = now() - interval '301 seconds', revision = 8"
    )
    shop.live.clock.advance(seconds=5)  # type: ignore[attr-defined]  it is a test's
    await shop.move_orders()
    assert [pix.amount_cents for pix in shop.there.paid] == [100]
    assert timedelta(seconds=300) == HOLD_LASTS, "as in the statement"


async def test_no_cell_is_closed_whose_accounts_somebody_else_holds_by_now(moving: Moving) -> None:
    place, shop = moving.place, moving.shop
    answers = asyncio.Event()
    shop.there.before_answer = answers.wait
    await moving.send()
    handing_over = asyncio.create_task(shop.move_orders())
    await moving.wait_until_calling()
    move = asyncio.create_task(place.move(makes_tables=False))
    await moving.wait_until_held()
    # As who took this mover for dead, and moves the cell.
    await cells.execute(place.old, "update institution_account set held_at = held_at + interval '1 second'")
    answers.set()
    await handing_over
    with pytest.raises(InstallationError, match="money may leave an account of the cell again"):
        await move
    assert (await place.read_row()).state == "MOVING"


async def test_a_worker_that_looked_before_the_hold_is_waited_for(moving: Moving) -> None:
    async with place_connection(moving) as worker, place_connection(moving) as mover:
        async with worker.transaction(isolation="repeatable_read"):
            await worker.execute("select from institution_account")
            hold = await hold_store.hold_all(mover)
            assert hold is not None
            assert not await hold_store.is_seen_by_all(mover, hold)
        assert await hold_store.is_seen_by_all(mover, hold)
        assert await hold_store.is_held_for_all(mover, hold)
        assert not await hold_store.is_held_for_all(mover, None)
        await hold_store.let_send(mover, structs.replace(hold, at=hold.at + timedelta(seconds=1)))
        assert await hold_store.is_held_for_all(mover, hold)
        await hold_store.let_send(mover, hold)
        assert await moving.read_held() is None


async def test_a_worker_that_hangs_since_before_the_hold_keeps_nobody_waiting_for_ever(moving: Moving) -> None:
    said, known = list[str](), await moving.place.read_row()
    async with (
        moving.place.moving(makes_tables=False) as move,
        place_connection(moving) as source,
        place_connection(moving) as worker,
        worker.transaction(isolation="repeatable_read"),
    ):
        await worker.execute("select from institution_account")
        bounds = structs.replace(BOUNDS, calls_max_s=0.5, silent_max_s=0.1)
        held = account_hold.holding_accounts(structs.replace(move, say=said.append, bounds=bounds), known, source)
        async with asyncio.timeout(60), held as check:
            await check()
    assert said[0] == "waiting for answers of institutions to what was sent before, of 0 orders"
    assert said[-1].startswith("no call at an institution can be under way any more")


@asynccontextmanager
async def place_connection(moving: Moving) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(
        moving.place.old.owner_url,
        server_settings={"search_path": "pixconnect", "application_name": "pixconnect worker"},
    )
    try:
        yield connection
    finally:
        await connection.close()
