"""A worker's work at accounts by its own clock, with and without a list at the institution."""

import asyncio
from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from pixconnect.assembly.base import running_beside
from pixconnect.doors.worker.leases import SlotLeases
from pixconnect.features.cases.service import case as case_usecases
from pixconnect.features.cases.service.answer import WantedAnswer, propose_answer
from pixconnect.features.institutions import worker
from pixconnect.features.institutions.accounts import INSTITUTIONS
from pixconnect.features.institutions.rail import InstitutionRail
from pixconnect.features.institutions.service import statement as statement_usecases
from pixconnect.features.institutions.worker import AccountReaders, look_after
from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.base import errors
from pixconnect.platform.pool import connect
from pixconnect.platform.privileges import SERVICE_ROLE
from support.account_shop import Shop
from support.fixtures.accounts import shop_in_july
from support.operators import as_operator
from support.postgres import Addresses, make_live
from support.proposals import confirm_waiting
from support.service import open_service
from support.statement_files import make_ofx, make_ofx_line

shop = shop_in_july()


async def read(shop: Shop, *lines: tuple[str, str, str], **told: Any) -> None:
    written = [make_ofx_line(item_id=name, amount=amount, memo=text, at=told["last"]) for name, amount, text in lines]
    await statement_usecases.record_file(as_operator(shop.live.context), "loja", make_ofx(*written, opening="100.00", **told))


async def moved_by_the_worker(shop: Shop) -> Sequence[int]:
    """The movements once a worker has found something to settle."""

    async def connect_as_service() -> Any:
        return await connect(shop.live.database.service_url, role=SERVICE_ROLE, schema="pixconnect", name="tests")

    leases = SlotLeases(connect_as_service, SystemClock())
    make_rail = partial(InstitutionRail, clock=shop.context.clock)
    readers = AccountReaders(shop.context, leases, lambda opened, memory: make_rail(opened.institution, memory))
    async with running_beside(leases.run, readers.run), asyncio.timeout(20):
        while True:
            rows = await shop.live.fetch("select amount_cents from movement where kind <> 'opening_balance'")
            if rows:
                return [row["amount_cents"] for row in rows]
            await asyncio.sleep(0.05)


async def test_what_came_in_is_posted_once_its_day_is_over_without_another_file(shop: Shop) -> None:
    await read(shop, ("T1", "3.00", "CREDITO"), first="20260703", last="20260703", closing=None)
    await statement_usecases.settle_items(shop.live.context, shop.account)
    rows = await shop.live.fetch("select waits from institution_item")
    assert [row["waits"] for row in rows] == ["day_not_over"]
    shop.live.clock.advance(days=50)
    assert await moved_by_the_worker(shop) == [300]


async def test_an_answer_about_an_old_line_is_settled_after_a_death(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    await read(shop, ("S1", "50.00", "SALDO A"), first="20260701", last="20260701", closing=None)
    shop.live.clock.advance(days=50)
    await case_usecases.look_for_cases(shop.live.context)
    (case,) = [one.case for one in await case_usecases.list_cases(shop.live.context) if one.case.kind == "day"]
    proposed = await propose_answer(as_operator(shop.live.context, "ana"), WantedAnswer(case_id=case.id, counts=["S1"]))

    async def die(*_: Any) -> None:
        raise errors.ServiceUnavailable("died")

    with monkeypatch.context() as dying:
        dying.setattr(statement_usecases, "settle_items", die)
        other = as_operator(shop.live.context, "bia")
        await confirm_waiting(other, shop.live.context, "loja", "answer", proposed.code)
    assert await moved_by_the_worker(shop) == [5000]


async def test_live_mode_without_an_account_is_told_once(database: Addresses) -> None:
    await make_live(database)
    leases: Any = SimpleNamespace(add=lambda _: None, listen=lambda *_: None, held=())
    async with open_service(database, is_sandbox=False, has_rail=False) as live:
        readers = AccountReaders(live.context, leases, cast(Any, None))
        with capture_logs() as logs:
            for _ in range(2):
                await readers._look()
    assert [line["log_level"] for line in logs if "no account at an institution" in line["event"]] == ["warning"]


async def test_an_account_waits_for_a_database_that_is_away(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([ConnectionRefusedError(), None])

    async def find(_: int) -> None:
        if (answer := next(answers)) is not None:
            raise answer

    monkeypatch.setattr(worker, "AWAY_S", (0.0,))
    leases: Any = SimpleNamespace(add=lambda _: None, listen=lambda *_: None, held=())
    institutions: Any = SimpleNamespace(find_read=find)
    readers = AccountReaders(shop.context.with_port(INSTITUTIONS, institutions), leases, cast(Any, None))
    with capture_logs() as logs:
        await readers._keep(shop.account.id, look_after)
    assert [line["reason"] for line in logs] == ["ConnectionRefusedError"]
