"""Long files: how far one is, and whose it is."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from starlette.requests import Request

from pixconnect.console.assets import Assets
from pixconnect.console.exports import AT_ONCE_MAX, Export, Exports
from pixconnect.console.visit import read_visit
from pixconnect.domain import errors
from pixconnect.domain.console import ALL_SCOPES, Visitor


async def _parts(gate: asyncio.Event, error: Exception | None = None) -> AsyncIterator[tuple[int, bytes]]:
    yield 2, b"ab"
    await gate.wait()
    if error is not None:
        raise error
    yield 1, b"c"


def _export(gate: asyncio.Event, error: Exception | None = None) -> Export:
    return Export("a.csv", "text/csv", 3, _parts(gate, error))


async def _until(condition: Any) -> None:
    while not condition():  # noqa: ASYNC110 - what is waited for is in this loop of events
        await asyncio.sleep(0)


def _page(export: Export) -> str:
    parts: Any = SimpleNamespace(assets=Assets(), is_sandbox=True, version="0.1.0")
    scope = dict(type="http", method="GET", path="/ledger/saving", query_string=b"", headers=[(b"host", b"here")])
    visitor = Visitor(
        session_id=1,
        kind="sandbox",
        name="sandbox",
        role="operator",
        holder_id=None,
        scopes=ALL_SCOPES,
        csrf_token="",
        created_at=datetime.now(UTC),
        expires_at=datetime.now(UTC),
    )
    visit = msgspec.structs.replace(read_visit(Request(scope), parts, visitor))
    return bytes(visit.page("saving.html", export=export).body).decode()


async def test_a_page_says_how_far_a_file_is_and_loads_again_where_there_is_no_script() -> None:
    gate = asyncio.Event()
    export = _export(gate)
    await _until(lambda: export.written_count == 2)
    page = _page(export)
    assert "2 of 3 lines" in page
    assert '<noscript><meta http-equiv="refresh"' in page
    assert "data-live" in page
    assert "/ledger/saving/file" not in page
    gate.set()
    await _until(lambda: export.is_done)
    page = _page(export)
    assert "3 of 3 lines" in page
    assert "refresh" not in page
    assert "/ledger/saving/file" in page
    # It may be taken twice.
    for _ in range(2):
        assert b"".join([content async for content in export.read()]) == b"abc"
    await export.forget()


async def test_a_file_that_breaks_off_is_none() -> None:
    gate = asyncio.Event()
    gate.set()
    export = _export(gate, RuntimeError("the password is hunter2"))
    await _until(lambda: export.has_failed)
    page = _page(export)
    assert "It broke off" in page
    assert "hunter2" not in page
    assert not export.is_done
    await export.forget()


async def test_a_session_has_one_file_of_its_own_and_all_have_but_some() -> None:
    exports, gate = Exports(), asyncio.Event()
    for session_id in (1, 1, *range(2, AT_ONCE_MAX + 1)):
        await exports.make_room(session_id)
        exports.keep(session_id, _export(gate))
    with pytest.raises(errors.ServiceUnavailable):
        await exports.make_room(99)
    with pytest.raises(errors.NotFound):
        exports.find(99)
    for session_id in range(1, AT_ONCE_MAX + 1):
        await exports.find(session_id).forget()
