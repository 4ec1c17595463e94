"""The first page: the day's money for those who may see it, and pending work for operators alone."""

from unittest.mock import AsyncMock

import pytest

from pixconnect.features.monitoring.service.health import HealthWatch
from pixconnect.kernel.flows import unresolved
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.rules.access import Caller
from pixconnect.platform.base import errors
from support.console import open_console, sign_in, sign_in_client
from support.service import Service, credit_report, make_charge, open_holder


async def test_the_money_of_the_day_is_on_it_and_nobody_elses(service: Service, caller: Caller) -> None:
    other = await open_holder(service, account_number="2")
    await receive_credit(service.context, credit_report(service, amount_cents=123_45))
    async with open_console(service) as console:
        operator = console.nobody.of(await sign_in(console, "reader"))
        own = console.nobody.of(await sign_in_client(console, caller.holder_id))
        theirs = console.nobody.of(await sign_in_client(console, other.holder_id))
        without = console.nobody.of(await sign_in_client(console, caller.holder_id, "charge.read"))
        for browser, shows in ((operator, True), (own, True), (theirs, False), (without, False)):
            page = (await browser.get("/")).content.decode()
            assert ("123,45" in page) is shows
            assert ("received today" in page) is (browser is not without)
            assert ("sent today, without refunds" in page) is (browser is not without)
            assert ("yesterday R$\u00a00,00" in page) is (browser is not without)
        portuguese = (await own.get("/", **{"accept-language": "pt-BR"})).content.decode()
        assert "recebido hoje" in portuguese
        all_holders = (await operator.get("/", **{"accept-language": "pt-BR"})).content.decode()
        assert '<a href="/holders">Todos</a>' in all_holders


async def test_the_week_is_a_chart_with_its_table_and_without_a_script(service: Service, caller: Caller) -> None:
    async with open_console(service) as console:
        own = console.nobody.of(await sign_in_client(console, caller.holder_id))
        assert 'class="chart"' not in (await own.get("/")).content.decode()
        await make_charge(service, caller)
        page = (await own.get("/")).content.decode()
    week = page.partition("Charges of the last 7 days")[2].partition("</section>")[0]
    assert 'role="img" aria-label="Charges of the last 7 days"' in week
    assert week.count('class="bar going"') == 1
    assert "As a table" in week


async def test_waiting_work_is_for_operators_and_a_failing_check_named(
    service: Service, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await service.fetch("insert into kept_case (kind, name, facts, since) values ('rail', 'a', 'differs', now()) returning id")
    async with open_console(service) as console:
        operator = console.nobody.of(await sign_in(console, "operator"))
        holder = console.nobody.of(await sign_in_client(console, caller.holder_id))
        assert b"open cases: 1" in (await operator.get("/")).content
        assert b"open cases" not in (await holder.get("/")).content
        monkeypatch.setattr(unresolved, "count_silent", AsyncMock(return_value=1))
        silent = 'orders without an answer for over a minute: 1 (<a href="/transfers?status=PROCESSING">Transfers</a>'
        assert silent in (await operator.get("/")).content.decode()

    async def fail() -> None:
        raise errors.ServiceUnavailable("the disk of the database is full")

    watch = HealthWatch({"disk": fail}, service.clock)
    async with open_console(service, {HealthWatch: watch}) as console:
        holder = console.nobody.of(await sign_in_client(console, caller.holder_id))
        page = (await holder.get("/")).content
        assert b"has a problem" in page
        assert b"the disk of the database is full" in page
        portuguese = (await holder.get("/", **{"accept-language": "pt-BR"})).content.decode()
        assert "<summary>O disco do banco de dados está quase cheio.</summary>" in portuguese
