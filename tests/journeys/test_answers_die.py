"""Answers about lines of a statement move money once, although the confirming process is killed at each step."""

import asyncio
import signal
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from pixconnect.features.cases.service import case as case_usecases
from pixconnect.features.cases.service.answer import WantedAnswer, propose_answer
from pixconnect.features.institutions.service import statement as statement_usecases
from pixconnect.features.institutions.service.sweep import post_opening
from pixconnect.kernel.tables import proposal as proposal_store
from pixconnect.platform.base.clock import to_day
from support import dying_work, postgres
from support.account_shop import Shop, open_shop
from support.books import check_books
from support.dying_work import Confirmation
from support.fake_institution import FakeInstitution
from support.killed_process import POINTS_OF_AN_ANSWER, KillPoints
from support.operators import as_operator
from support.postgres import make_live
from support.proposals import confirm_waiting
from support.service import open_service
from support.statement_files import make_ofx, make_ofx_line

pytestmark = [pytest.mark.journey, pytest.mark.long]


@pytest.fixture
async def shop(database: postgres.Addresses) -> AsyncIterator[Shop]:
    await make_live(database)
    async with open_service(database, is_sandbox=False, has_rail=False) as live:
        there = FakeInstitution(live.clock)
        there.balance_cents = 1_000_000
        shop = await open_shop(live, there)
        await post_opening(live.context, shop.account)
        live.clock.advance(days=1)
        yield shop


async def ask(shop: Shop, number: int) -> str:
    """Two contradicting lines of yesterday, twice, and a proposed answer about both; returns its code."""
    day = to_day(shop.live.clock.now()) - timedelta(days=1)
    for fee, text in (("-1.00", "SEGURO"), ("-2.00", "SEGURO MENSAL")):
        lines = [
            make_ofx_line(item_id=f"F{number}", at=f"{day:%Y%m%d}", amount=fee, memo="TARIFA"),
            make_ofx_line(item_id=f"G{number}", at=f"{day:%Y%m%d}", amount="-0.50", memo=text),
        ]
        content = make_ofx(*lines, first=f"{day:%Y%m%d}", last=f"{day:%Y%m%d}")
        await statement_usecases.record_file(as_operator(shop.live.context), "loja", content)
        await statement_usecases.settle_items(shop.live.context, shop.account, day)
    await case_usecases.look_for_cases(shop.live.context)
    cases = await case_usecases.list_cases(shop.live.context, kind="day")
    (case,) = [one.case for one in cases if one.case.name == day.isoformat()]
    other = f"~{day:%Y%m%d}.2"
    wanted = WantedAnswer(case_id=case.id, out=[f"F{number}"], counts=[f"F{number}{other}"], aside=[f"G{number}{other}"])
    return (await propose_answer(as_operator(shop.live.context, "ana"), wanted)).code


_HELD = """
    select from pg_locks join pg_database on pg_database.oid = database
    where locktype = 'advisory' and datname = current_database()
"""


async def test_an_answer_moves_money_once_whoever_dies_at_whatever_step(shop: Shop, tmp_path: Path) -> None:
    points, database = KillPoints(tmp_path), shop.live.database
    for number, point in enumerate(POINTS_OF_AN_ANSWER, 1):
        shop.live.clock.advance(days=1)
        code = await ask(shop, number)
        points.arm(point)
        confirmation = Confirmation(
            database=database, now=shop.live.clock.real, code=code, operator="bia", points=str(tmp_path / "kill_points")
        )
        assert await dying_work.run(confirmation, tmp_path) == -signal.SIGKILL, point
        # The server notices the death a moment later; until then it holds the account's lock.
        while await shop.live.fetch(_HELD):  # noqa: ASYNC110  only the server sees it
            await asyncio.sleep(0.01)
        if await proposal_store.list_waiting(shop.live.context.pool, institution_id=shop.account.id):
            await confirm_waiting(as_operator(shop.live.context, "bia"), shop.live.context, "loja")
        await statement_usecases.settle_waiting(shop.live.context, shop.account, is_deep=True)
        rows = await shop.live.fetch("select direction, amount_cents, count(*) from movement group by 1, 2 order by 1, 2")
        expected = [("IN", 100, number), ("IN", 1_000_000, 1)]
        expected += [("OUT", 50, number), ("OUT", 100, number), ("OUT", 200, number)]
        assert [tuple(row) for row in rows] == expected, point
        await check_books(shop.live)
