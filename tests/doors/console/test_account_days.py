"""The days of accounts at institutions in the console, beside a live service in this process."""

from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.requests import Request

from pixconnect.doors.console.visit import Assets, Visit, read_visit
from pixconnect.features.console_pages import days as day_pages
from pixconnect.features.console_pages import figures
from pixconnect.features.institutions.service import day as day_usecases
from pixconnect.features.institutions.service import statement as statement_usecases
from pixconnect.features.monitoring.service.health import HealthWatch, check_database
from pixconnect.kernel.feature import FeatureParts
from pixconnect.kernel.rules.access import SCOPES, Visitor
from pixconnect.platform.base import errors
from support.account_shop import open_shop
from support.fake_institution import FakeInstitution
from support.operators import as_operator
from support.service import STARTED_AT, Service
from support.statement_files import make_ofx, make_ofx_line


async def read_july(live: Service) -> None:
    there = FakeInstitution(live.clock)
    there.balance_cents = 10_000
    live.clock.advance(days=-1)
    account = (await open_shop(live, there)).account
    live.clock.advance(days=2)
    lines = [
        make_ofx_line(item_id="F1", at="20260701", amount="-1.00", memo="TARIFA"),
        make_ofx_line(item_id="N1", at="20260701", amount="5.00", memo="=PIX &lt;b&gt;"),
    ]
    file = make_ofx(*lines, first="20260701", last="20260701", closing="104.00", opening="100.00")
    await statement_usecases.record_file(as_operator(live.context), "loja", file)
    await statement_usecases.settle_items(live.context, account)


def visit(live: Service, path: str, *, kind: str = "operator", language: str = "en", q: str = "", **parameters: str) -> Visit:
    parts: Any = SimpleNamespace(
        assets=Assets(),
        menu=(),
        is_sandbox=False,
        version="0.1.0",
        draw_qr=lambda text: text.encode(),
        context=live.context,
        home=live.context,
        operator=as_operator(live.context),
        api_url="https://pix.example",
        of_features=FeatureParts(
            {HealthWatch: HealthWatch({"database": partial(check_database, live.context.pool)}, live.clock)}
        ),
    )
    visitor = Visitor(
        session_id=1,
        kind=kind,  # type: ignore[arg-type]
        name="ana",
        role="operator",
        holder_id=None if kind == "operator" else 1,
        scopes=frozenset(SCOPES),
        csrf_token="t",
        created_at=STARTED_AT,
        expires_at=STARTED_AT + timedelta(days=9),
    )
    headers = [(b"host", b"127.0.0.1:9080"), (b"accept-language", language.encode())]
    scope: dict[str, Any] = dict(
        type="http", method="GET", path=path, query_string=urlencode({"q": q}).encode(), headers=headers
    )
    return read_visit(Request(scope | dict(path_params=parameters)), parts, visitor)


async def test_each_account_has_its_last_seven_days_as_boxes(live: Service) -> None:
    empty = bytes((await day_pages.show_days(visit(live, "/days"))).body).decode()
    assert "No accounts at institutions" in empty
    await read_july(live)
    page = bytes((await day_pages.show_days(visit(live, "/days"))).body).decode()
    assert page.count('href="/days/loja/2026-') == 7
    assert ("closed with cases" in page, "1 unmatched" in page) == (True, True)
    assert "Difference" not in page
    first = bytes((await figures.show_overview(visit(live, "/"))).body).decode()
    assert first.count('href="/days/loja/2026-') == 7
    portuguese = bytes((await day_pages.show_days(visit(live, "/days", language="pt-BR"))).body).decode()
    assert "fechado com casos em aberto" in portuguese
    account = await day_usecases.read_named_account(live.context, "loja")
    live.clock.advance(days=1)
    other = make_ofx(first="20260702", last="20260702", closing="104.01")
    await statement_usecases.record_file(as_operator(live.context), "loja", other)
    await statement_usecases.settle_items(live.context, account)
    page = bytes((await day_pages.show_days(visit(live, "/days"))).body).decode()
    assert "Difference" in page


async def test_a_day_shows_its_lines_and_its_file_has_them_without_formulas(live: Service) -> None:
    await read_july(live)
    of_day = dict(name="loja", day="2026-07-01")
    page = bytes((await day_pages.show_day(visit(live, "/days/loja/2026-07-01", **of_day))).body).decode()
    assert ("F1" in page, "=PIX &lt;b&gt;" in page, "not read yet" in page) == (True, True, True)
    file = await day_pages.export_day(visit(live, "/days/loja/2026-07-01/file", language="pt", **of_day))
    heading, fee, pix = bytes(file.body).decode().splitlines()
    assert heading.startswith('"side";"id"')
    assert fee == '"there";"F1";"OUT";"1,00";"fee";"name";"movement F1";"";"";"TARIFA"'
    assert pix.endswith(';"\'=PIX <b>"')


async def test_days_are_for_operators_and_only_those_that_are_there(live: Service) -> None:
    await read_july(live)
    with pytest.raises(errors.Forbidden):
        await day_pages.show_days(visit(live, "/days", kind="holder"))
    for day in ("0001-01-01", "2020-11-15", "9999-12-31"):
        with pytest.raises(errors.BadRequest, match="day: must be from 2020-11-16"):
            await day_pages.show_day(visit(live, "/days", name="loja", day=day))
    for name, day in (("other", "2026-07-01"), ("loja\0", "2026-07-01"), ("loja", "yesterday")):
        with pytest.raises(errors.NotFound):
            await day_pages.show_day(visit(live, "/days", name=name, day=day))
