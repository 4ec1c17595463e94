"""The console before two cells: an operator chooses one, or searches both; a holder of either signs in and knows of none."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from pixconnect.assembly.base import open_base
from pixconnect.assembly.console_cells import open_console_cells
from pixconnect.console import pages
from pixconnect.console.application import Console
from pixconnect.domain.frame import cell, errors
from pixconnect.usecases.frame import audit
from pixconnect.usecases.identity.console_session import ClientSignIn, NewSession
from support.cells import NUMBER
from support.console import Browser, add_and_sign_in, make_parts
from support.house import House, Resident, open_house
from support.postgres import Addresses
from support.webhooks import eventually


class Counter(Struct, frozen=True, kw_only=True):
    """The console, with an operator before it and a holder in each cell."""

    house: House
    operator: Browser
    holders: dict[int, Resident]

    async def let_in(self, number: int) -> Browser:
        """The holder of this cell, signed in."""
        holder = self.holders[number]
        asked = ClientSignIn(client_id=holder.client_id, client_secret=holder.client_secret, address="192.0.2.1")
        session: NewSession = await self.operator.console._parts.sign_in.client(asked)
        return self.operator.of(session)

    async def charge(self, number: int) -> Any:
        holder = self.holders[number]
        return await holder.done("POST", "/v1/connect/charge", {"amount": 1234, "key": holder.key})


@pytest.fixture
async def counter(
    database: Addresses, other_database: Addresses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Counter]:
    async with open_house(database, other_database, tmp_path, monkeypatch) as house:
        settings = dataclasses.replace(house.settings, console_database_url=database.owner_url)
        async with (
            open_base(settings, "test console") as base,
            open_console_cells(settings, base) as cells,
            cells.open_others(),
        ):
            parts = make_parts(cells.contexts, cells.operators)
            nobody = Browser(console=Console(parts, pages.ROUTES, lambda: None))
            session = await add_and_sign_in(house.operator_of(cell.HOME), parts, "operator")
            holders = {number: await house.open_holder(number, funds_cents=5000) for number in (cell.HOME, NUMBER)}
            try:
                yield Counter(house=house, operator=nobody.of(session), holders=holders)
            finally:
                parts.exports.forget_all()


async def test_an_operator_chooses_a_cell_and_sees_what_is_its(counter: Counter) -> None:
    operator, charges = counter.operator, {number: await counter.charge(number) for number in counter.holders}
    for number, other in ((cell.HOME, NUMBER), (NUMBER, cell.HOME)):
        for path, shown in (
            ("/charges", lambda each: charges[each]["id"]),
            ("/holders", lambda each: counter.holders[each].holder_id),
        ):
            page = (await operator.get(f"{path}?cell={number}")).content.decode()
            assert f'href="/{path[1:]}/{shown(number)}' in page
            assert f'href="/{path[1:]}/{shown(other)}' not in page
            assert f'href="{path}?cell={NUMBER}"' in page
        # What has an id that says its cell needs no choice, and what its page leads to is in that cell.
        answer = await operator.get(f"/charges/{charges[number]['id']}")
        assert answer.status == 200
        assert (f"/events?cell={NUMBER}" in answer.content.decode()) == (number == NUMBER)
    # Events and endpoints are numbered by each cell for itself.
    for number, holder in counter.holders.items():
        hook = {"url": f"http://127.0.0.1:9/cell-{number}", "secret": "s" * 16, "event_types": ["qrcode.pending"]}
        await holder.done("POST", "/v1/webhook/endpoints", hook)
    for number in counter.holders:
        page = (await counter.operator.get(f"/endpoints/1?cell={number}")).content.decode()
        assert f"/cell-{number}<" in page
        assert f"/cell-{1 - number}<" not in page
    # An act is recorded in the cell of its holder.
    holder = counter.holders[NUMBER].holder_id
    fields = {"url": "http://127.0.0.1:9/new", "secret": "s" * 16, "type": "qrcode.pending"}
    answer = await counter.operator.post(f"/endpoints?holder={holder}", fields)
    assert answer.status == 200, answer.content.decode()
    verbs = {
        number: [(each.operator, each.verb) for each in await audit.list_entries(counter.house.operator_of(number))]
        for number in counter.holders
    }
    assert ("console operator", "endpoint add") in verbs[NUMBER]
    assert ("console operator", "endpoint add") not in verbs[cell.HOME]
    assert "endpoint add" in (await counter.operator.get(f"/audit?cell={NUMBER}")).content.decode()
    for text in ("2", "255", "256", "x", "-1", str(2**53)):
        # Of a cell that nobody knows there is nothing to show.
        answer = await operator.get(f"/charges?cell={text}")
        assert answer.status == 200
        assert f"/charges/{charges[cell.HOME]['id']}" in answer.content.decode()


async def test_the_search_goes_over_all_cells_and_names_one_that_is_away(counter: Counter) -> None:
    charges = {number: await counter.charge(number) for number in counter.holders}
    for charge in charges.values():
        answer = await counter.operator.get(f"/search?q={charge['transaction_identification']}")
        assert answer.status == 303
        assert answer.headers["location"].startswith(f"/charges/{charge['id']}")
    # Whose holder was chosen says nothing of whose thing is found.
    chosen = counter.holders[cell.HOME].holder_id
    answer = await counter.operator.get(f"/search?q={charges[NUMBER]['transaction_identification']}&holder={chosen}")
    assert f"holder={chosen}" not in answer.headers["location"]
    page = (await counter.operator.get("/search?q=Maria")).content.decode()
    assert all(f"/holders/{each.holder_id}" in page for each in counter.holders.values())
    counter.house.wire.is_away = True
    page = (await counter.operator.get("/search?q=Maria")).content.decode()
    assert "Cell second gives no answer now" in page
    assert f"/holders/{chosen}" in page
    assert (await counter.operator.get("/")).status == 200

    async def is_refused() -> bool:
        return (await counter.operator.get(f"/charges?cell={NUMBER}")).status == 503

    await eventually(is_refused)
    counter.house.wire.is_away = False

    async def is_back() -> bool:
        return (await counter.operator.get(f"/charges?cell={NUMBER}")).status == 200

    await eventually(is_back)


async def test_a_holder_of_any_cell_signs_in_and_sees_its_own_things_alone(counter: Counter) -> None:
    charges = {number: await counter.charge(number) for number in counter.holders}
    for number, other in ((cell.HOME, NUMBER), (NUMBER, cell.HOME)):
        holder = await counter.let_in(number)
        page = (await holder.get(f"/charges?cell={other}")).content.decode()
        assert f"/charges/{charges[number]['id']}" in page
        assert f"/charges/{charges[other]['id']}" not in page
        assert "Cell" not in page
        assert (await holder.get(f"/charges/{charges[other]['id']}")).status == 404
        answer = await holder.get(f"/search?q={charges[other]['transaction_identification']}")
        assert "Nothing was found" in answer.content.decode()
        assert f"/charges/{charges[other]['id']}" not in answer.content.decode()
        assert counter.holders[number].client_id in (await holder.get("/sessions")).content.decode()
        assert (await holder.post("/sign-out")).status == 303
        assert (await holder.get("/charges")).status == 303


async def test_sessions_of_two_cells_with_one_number_have_nothing_in_common(counter: Counter) -> None:
    operator, whose = counter.operator, counter.holders[cell.HOME].holder_id
    stranger = await counter.let_in(NUMBER)
    assert stranger.who.session_id == operator.who.session_id
    assert (await operator.post(f"/ledger/saving?holder={whose}&format=csv")).status == 303
    await _until_saved(operator)
    for path in ("/ledger/saving", "/ledger/saving/file"):
        assert (await stranger.get(path)).status == 404
    # Nor does a reader end a session that has the number of its own.
    parts = operator.console._parts
    reader = operator.of(await add_and_sign_in(counter.house.operator_of(cell.HOME), parts, "reader"))
    other = await counter.let_in(NUMBER)
    assert other.who.session_id == reader.who.session_id
    answer = await reader.post(f"/sessions/{reader.who.session_id}/end?cell={NUMBER}")
    assert answer.status == 403
    assert (await other.get("/charges")).status == 200
    assert "this one" not in (await reader.get(f"/sessions?cell={NUMBER}")).content.decode()


async def test_a_cell_that_hangs_keeps_nobody_of_another_from_signing_in(counter: Counter) -> None:
    counter.house.wire.is_still = True
    asked = ClientSignIn(client_id="nobody", client_secret="x" * 43, address="192.0.2.9")
    guess = asyncio.create_task(counter.operator.console._parts.sign_in.client(asked))
    await asyncio.sleep(0)
    holder = await counter.let_in(cell.HOME)
    assert (await holder.get("/charges")).status == 200
    assert not guess.done()
    counter.house.wire.is_still = False
    with pytest.raises((errors.Unauthorized, errors.ServiceUnavailable)):
        await guess


async def _until_saved(browser: Browser) -> None:
    async def is_saved() -> bool:
        return (await browser.get("/ledger/saving/file")).status == 200

    await eventually(is_saved)
