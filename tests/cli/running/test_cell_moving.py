"""What ``pixconnect cell move`` says, and what it refuses at once."""

import asyncio
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from msgspec import structs

from pixconnect.cli.frame.exit_status import ExitStatus
from pixconnect.cli.frame.failures import CommandError
from pixconnect.cli.running import cell_moving, cell_opening
from pixconnect.store.running.cell_copy import CopyProgress
from pixconnect.usecases.running import installation
from pixconnect.usecases.running.known_cells import read_known_cell
from support import cells
from support.command_line import CommandLine
from support.postgres import Addresses


def a_progress(**changes: int) -> CopyProgress:
    usual = dict(
        tables_count=117,
        tables_ready=90,
        rows_count=10_697,
        rows_copied=10_015,
        bytes_count=8_200_000,
        bytes_copied=6_900_000,
        behind_bytes=3800,
        errors_count=0,
    )
    return CopyProgress(**(usual | changes))


def test_a_line_says_how_far_a_copy_is_and_what_is_left_at_the_pace_of_this_run() -> None:
    assert cell_moving.describe_progress(a_progress(), 10, 6_500_000) == (
        "tables 90 of 117, rows about 10,015 of 10,697, 6.9 MB of 8.2 MB, behind by 3.8 kB, about 2 s left"
    )
    assert "left" not in cell_moving.describe_progress(a_progress(), 0, 0)
    assert (
        "errors at the target: 2, look at its log (a full disk is one; so are too few max_replication_slots"
        in cell_moving.describe_progress(a_progress(errors_count=2), 10, 1)
    )
    assert cell_moving.show_bytes(999) == "999 B"
    assert cell_moving.show_bytes(3 * 10**15) == "3,000.0 TB".replace(",", "")


@pytest.mark.parametrize(
    ("to", "cancels", "takes_over"),
    [(None, False, False), ("postgresql://db/a", True, False), (None, True, True), ("postgresql://db/a", False, True)],
)
def test_a_move_has_one_end(to: str | None, *, cancels: bool, takes_over: bool) -> None:
    with pytest.raises(CommandError, match="one of --to URL, --cancel and --take-over"):
        cell_moving.choose_end(to, cancels=cancels, takes_over=takes_over)


@contextmanager
def handled(handler: Any, *signals: signal.Signals) -> Generator[None]:
    """As a process is started: those that run tests may ignore some."""
    before = {each: signal.signal(each, handler) for each in signals}
    try:
        yield
        assert all(signal.getsignal(each) is handler for each in signals)
    finally:
        for each, former in before.items():
            signal.signal(each, former)


@pytest.mark.parametrize(
    ("first", "status"), [(signal.SIGHUP, ExitStatus.REFUSED), (signal.SIGINT, ExitStatus.INTERRUPTED)]
)
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_that_ends_a_process_stops_a_move_once_and_what_it_undoes_comes_to_its_end(
    first: signal.Signals, second: signal.Signals, status: ExitStatus
) -> None:
    undone = False

    async def be_stopped() -> None:
        nonlocal undone
        with cell_moving.stopped_by_signals():
            try:
                os.kill(os.getpid(), first)
                await asyncio.sleep(5)
            finally:
                os.kill(os.getpid(), second)
                await asyncio.sleep(0.1)
                undone = True

    with (
        handled(signal.default_int_handler, first, second),
        pytest.raises(CommandError, match=f"stopped by {first.name}: run this again") as stopped,
    ):
        await be_stopped()
    assert stopped.value.status == status
    assert undone


async def test_a_signal_that_was_ignored_is_ignored() -> None:
    with handled(signal.SIG_IGN, signal.SIGHUP), cell_moving.stopped_by_signals():
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0.1)


async def test_a_cell_that_a_move_has_closed_is_not_made_anew(database: Addresses, other_database: Addresses) -> None:
    await cells.add_cell(database, other_database)
    await cells.execute(
        database,
        "update pixconnect.cell set address = regexp_replace(address, '/[^/?]+([?]|$)', '/nowhere\\1'), state = 'MOVING', "
        "other_address = 'postgresql://127.0.0.1:1/new', moving_since = now()",
    )
    settings = cells.home_settings(database)
    async with cells.operating_at_home(settings) as operator:
        known = await read_known_cell(operator, cells.NAME)
        [cut_off, closed] = await cell_opening.look_for_faults(operator, settings, known)
        assert "was cut off: run `pixconnect cell move second --to " in cut_off
        assert "make no database nowhere" in closed
        [missing] = await cell_opening.look_for_faults(operator, settings, structs.replace(known, state="OPEN"))
        assert "it has no database nowhere any more: find the one in which it is" in missing


async def test_a_server_that_keeps_no_logical_log_is_named_with_its_setting(
    database: Addresses, other_database: Addresses, tmp_path: Path
) -> None:
    connection = await asyncpg.connect(database.owner_url, server_settings={"search_path": "pixconnect"})
    try:
        await installation.check_mode(connection, "sandbox")
    finally:
        await connection.close()
    await cells.add_cell(database, other_database)
    pixconnect = CommandLine(database, tmp_path, PIXCONNECT_OWNER_DATABASE_URL=database.owner_url)
    for words, said in (
        (("second", "--to", "postgresql://127.0.0.1:1/new"), "set wal_level = logical there"),
        (("second", "--to", "postgresql://pix:secret@db/new"), "--to: says who logs in"),
        (("second", "--cancel"), "nobody moves the cell second"),
        (("home", "--to", "postgresql://127.0.0.1:1/new"), "the home cell is where the settings say"),
    ):
        refusal = pixconnect.refusal("cell", "move", *words)
        assert said in refusal
        assert "secret" not in refusal
    assert await cells.fetch_value(database, "select state from pixconnect.cell") == "OPEN"
