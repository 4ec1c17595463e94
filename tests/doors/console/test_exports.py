"""Long exports: their progress, and their owners."""

import asyncio
import errno
import io
import tempfile
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from starlette.requests import Request
from structlog.testing import capture_logs

from pixconnect.doors.console.exports import AT_ONCE_MAX, LEFT_AFTER_S, OF_HOLDERS_MAX, Export, Exports
from pixconnect.doors.console.visit import Assets, read_visit
from pixconnect.kernel.rules.access import ALL_SCOPES, Visitor
from pixconnect.platform.base import errors


async def _parts(gate: asyncio.Event, error: Exception | None = None, end: bytes = b"c") -> AsyncIterator[tuple[int, bytes]]:
    yield 2, b"ab"
    await gate.wait()
    if error is not None:
        raise error
    yield 1, end


def _export(gate: asyncio.Event, error: Exception | None = None, end: bytes = b"c") -> Export:
    return Export("a.csv", "text/csv", 3, _parts(gate, error, end))


async def _until(condition: Any) -> None:
    while not condition():  # noqa: ASYNC110 - what is waited for is in this loop of events
        await asyncio.sleep(0)


def _page(export: Export) -> str:
    parts: Any = SimpleNamespace(assets=Assets(), is_sandbox=True, version="0.1.0", menu=())
    scope = dict(type="http", method="GET", path="/ledger/saving", query_string=b"", headers=[(b"host", b"here")])
    visitor = Visitor(
        session_id=1, kind="sandbox", name="sandbox", role="operator", holder_id=None, scopes=ALL_SCOPES,
        csrf_token="", created_at=datetime.now(UTC), expires_at=datetime.now(UTC),
    )  # fmt: skip
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
    await _forget(export)


async def test_a_file_that_breaks_off_is_none() -> None:
    gate = asyncio.Event()
    gate.set()
    export = _export(gate, RuntimeError("the password is hunter2"))
    await _until(lambda: export.has_failed)
    page = _page(export)
    assert "The export was interrupted" in page
    assert "hunter2" not in page
    assert not export.is_done
    await _forget(export)


async def test_a_session_has_one_file_of_its_own_a_holder_two_and_holders_together_leave_operators_a_place() -> None:
    exports, gate = Exports(), asyncio.Event()

    def refuse(session_id: int, holder_id: int) -> None:
        with pytest.raises(errors.ServiceUnavailable):
            exports.begin(session_id, lambda: pytest.fail("it was begun"), holder_id)

    # One holder has many sessions, and begins many exports in each.
    for session_id in (1, 1, 2, 2):
        exports.begin(session_id, lambda: _export(gate), 7)
    refuse(3, 7)
    exports.begin(4, lambda: _export(gate), 8)
    refuse(5, 9)
    with pytest.raises(errors.NotFound):
        exports.find(5)
    exports.begin(6, lambda: _export(gate))
    oldest = exports.find(1)
    # Another operator has a place too, for which the oldest gives way.
    exports.begin(8, lambda: _export(gate))
    await _until(lambda: oldest._file.closed)
    for session_id in (2, 4, 6, 8):
        await _forget(exports.find(session_id))


async def test_an_operator_takes_the_place_of_what_is_whole_rather_than_of_what_is_being_written() -> None:
    exports, gate, now = Exports(), asyncio.Event(), asyncio.Event()
    now.set()
    for session_id in range(1, AT_ONCE_MAX + 1):
        exports.begin(session_id, lambda is_last=session_id == AT_ONCE_MAX: _export(now if is_last else gate))
    whole = exports.find(AT_ONCE_MAX)
    await _until(lambda: whole.is_done)
    exports.begin(99, lambda: _export(gate))
    await _until(lambda: whole._file.closed)
    for session_id in (*range(1, AT_ONCE_MAX), 99):
        await _forget(exports.find(session_id))


async def test_a_download_that_has_begun_is_whole_although_the_session_begins_another_file() -> None:
    exports, gate, long = Exports(), asyncio.Event(), b"c" * 200_000
    gate.set()
    exports.begin(1, lambda: _export(gate, end=long))
    earlier = exports.find(1)
    await _until(lambda: earlier.is_done)
    begun, waiting = earlier.read(), earlier.read()
    first = await anext(begun)
    exports.begin(1, lambda: _export(gate))
    await _until(lambda: earlier._file.closed)
    assert first + b"".join([content async for content in begun]) == b"ab" + long
    assert b"".join([content async for content in waiting]) == b"ab" + long
    await _forget(exports.find(1))


async def test_of_two_files_that_a_session_begins_at_once_one_is_kept_and_the_other_is_ended() -> None:
    exports, gate = Exports(), asyncio.Event()
    made: list[Export] = []

    def make() -> Export:
        made.append(_export(gate))
        return made[-1]

    async def begin() -> None:
        exports.begin(1, make)

    # There is an earlier one, which both want to replace.
    await begin()
    await asyncio.gather(begin(), begin())
    kept = exports.find(1)
    others = [export for export in made if export is not kept]
    assert len(others) == 2
    await _until(lambda: all(export._file.closed for export in others))
    assert all(export._task.done() for export in others)
    assert not kept._task.done()
    await _forget(kept)


async def test_a_console_without_a_temporary_folder_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    exports, gate = Exports(), asyncio.Event()
    exports.begin(1, lambda: _export(gate))
    earlier = exports.find(1)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with capture_logs() as logs, pytest.raises(errors.ServiceUnavailable, match="TMPDIR"):
        exports.begin(1, lambda: _export(gate))
    assert [(row["event"], row["log_level"]) for row in logs] == [("no temporary file", "error")]
    with pytest.raises(errors.NotFound):
        exports.find(1)
    # The earlier one has made room all the same, and is closed.
    await _until(lambda: earlier._file.closed)


class _FullDisk(io.BytesIO):
    """Its buffer has room, and no space to be emptied to."""

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def close(self) -> None:
        super().close()
        self.flush()


async def test_a_full_disk_at_the_end_is_found_before_the_file_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", _FullDisk)
    gate = asyncio.Event()
    gate.set()
    export = _export(gate)
    await _until(export._task.done)
    assert export.has_failed
    assert not export.is_done
    assert "The export was interrupted" in _page(export)
    await _forget(export)


async def test_a_file_that_was_taken_makes_room_for_another_session() -> None:
    exports, gate = Exports(), asyncio.Event()
    gate.set()
    kept = await _fill(exports, gate)
    await _until(lambda: all(export.is_done for export in kept))
    # All are complete, and none was downloaded.
    with pytest.raises(errors.ServiceUnavailable):
        exports.begin(99, lambda: pytest.fail("it was begun"), 99)
    assert b"".join([content async for content in kept[0].read()]) == b"abc"
    exports.begin(99, lambda: _export(gate), 99)
    with pytest.raises(errors.NotFound):
        exports.find(1)
    for export in (*kept, exports.find(99)):
        await _forget(export)


async def test_a_file_keeps_its_place_as_long_as_somebody_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    exports, gate = Exports(), asyncio.Event()
    kept = await _fill(exports, gate)
    loop = asyncio.get_running_loop()
    began_s, left_s = loop.time(), LEFT_AFTER_S
    # All but the first were left while they were written.
    monkeypatch.setattr(loop, "time", lambda: began_s + left_s + 1)
    exports.find(1)
    monkeypatch.setattr(loop, "time", lambda: began_s + left_s + 2)
    exports.begin(99, lambda: _export(gate), 99)
    assert exports.find(1) is kept[0]
    await _until(lambda: all(export._file.closed for export in kept[1:]))
    for export in (kept[0], exports.find(99)):
        await _forget(export)


async def test_parts_of_files_take_turns() -> None:
    gate, exports = asyncio.Event(), Exports()
    gate.set()
    parts = [part async for part in exports.in_turn(7, _parts(gate))]
    assert parts == [(2, b"ab"), (1, b"c")]


async def _fill(exports: Exports, gate: asyncio.Event) -> list[Export]:
    """As many as holders may have at once, each with some content."""
    for session_id in range(1, OF_HOLDERS_MAX + 1):
        exports.begin(session_id, lambda: _export(gate), session_id)
    kept = [exports.find(session_id) for session_id in range(1, OF_HOLDERS_MAX + 1)]
    await _until(lambda: all(export.written_count for export in kept))
    return kept


async def _forget(export: Export) -> None:
    export.forget()
    await _until(lambda: export._file.closed)
