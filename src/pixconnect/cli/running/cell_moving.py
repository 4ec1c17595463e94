"""What ``pixconnect cell move`` shows, and what its use cases need: addresses, migrations, the operator's terminal."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Final

from pixconnect.assembly.cell_settings import settings_of
from pixconnect.cli.frame import live_mode, terminal
from pixconnect.cli.frame.exit_status import ExitStatus
from pixconnect.cli.frame.failures import CommandError
from pixconnect.cli.running import cell_opening, migrate
from pixconnect.config import Settings, SettingsError
from pixconnect.domain.running.known_cell import CellAddress, KnownCell, parse_address
from pixconnect.store.running.cell_copy import CopyProgress
from pixconnect.usecases.frame.operator import OperatorContext
from pixconnect.usecases.running.cell_move import move_cell
from pixconnect.usecases.running.cell_move_ends import cancel_move, take_over
from pixconnect.usecases.running.cell_mover import CellMove, MoveBounds

_SHOWN_EVERY_S: Final = 5.0
_STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_UNITS: Final = ("B", "kB", "MB", "GB", "TB")


def choose_end(to: str | None, *, cancels: bool, takes_over: bool) -> Callable[[CellMove, str], Awaitable[KnownCell]]:
    """What the verb is to do with a cell, by the options that were given."""
    if [to is not None, cancels, takes_over].count(True) != 1:
        raise CommandError("give one of --to URL, --cancel and --take-over")
    if to is None:
        return cancel_move if cancels else take_over
    try:
        return partial(move_cell, address=parse_address(to))
    except ValueError as error:
        raise CommandError(f"--to: {error}") from None


def prepare_move(context: OperatorContext, settings: Settings, bounds: MoveBounds | None = None) -> CellMove:
    """All that moving a cell needs, for an operator in the home cell."""

    def url_of(address: str) -> str:
        reached = settings_of(settings, CellAddress(address=address))
        return reached.owner_database_url or reached.database_url

    async def make_tables(target: KnownCell) -> None:
        reached = settings_of(settings, target)
        try:
            live_mode.refuse_unsafe_database(reached)
        except SettingsError as error:
            raise CommandError(f"--to, for the login of {error}") from None
        await migrate.bring_up_to_date(reached, cell=target)
        if findings := await cell_opening.look_for_faults(context, settings, target):
            raise CommandError(f"the target is not as it must be: {findings[0]}; then run this again")

    return CellMove(
        context=context,
        # A live database has no tables of the simulated network.
        schemas={
            schema: package
            for schema, package, _ in migrate.SCHEMAS
            if schema != "sandbox" or settings.mode == "sandbox"
        },
        url_of=url_of,
        check_server=migrate.refuse_old_server,
        make_tables=make_tables,
        tell=_Teller(context.clock.monotonic_s).tell,
        say=terminal.notice,
        bounds=bounds or MoveBounds(),
    )


@contextmanager
def stopped_by_signals() -> Generator[None]:
    """Let a signal stop this task once: whoever died of it, or of a second one, in the wrong moment left the cell closed.

    Raises:
        CommandError: One of them came; what was to be undone is.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    came: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        # A second Ctrl-C, or what a terminal sends that is closed, is not to stop what undoes.
        if task is not None and not came:
            task.cancel()
        came.append(number)

    # Those stay ignored that are (`nohup`).
    heard = {each: handler for each in _STOPPING if (handler := signal.getsignal(each)) is not signal.SIG_IGN}
    for each in heard:
        loop.add_signal_handler(each, stop, each)
    try:
        yield
    except asyncio.CancelledError:
        if not came:
            raise
        raise CommandError(
            f"stopped by {came[0].name}: run this again, or look at `pixconnect cell check`; a cell that it had closed is open "
            "again, if nothing above says otherwise, and one that was closed before still is not",
            status=ExitStatus.INTERRUPTED if came[0] is signal.SIGINT else ExitStatus.REFUSED,
        ) from None
    finally:
        for each, handler in heard.items():
            loop.remove_signal_handler(each)
            signal.signal(each, handler)


class _Teller:
    """Says every few seconds how far a copy has come."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._first: tuple[float, int] | None = None
        self._said_at_s = float("-inf")

    def tell(self, progress: CopyProgress) -> None:
        now_s = self._now_s()
        if self._first is None:
            self._first = now_s, progress.bytes_copied
        if now_s < self._said_at_s + _SHOWN_EVERY_S:
            return
        self._said_at_s = now_s
        began_at_s, copied_before = self._first
        terminal.notice(describe_progress(progress, now_s - began_at_s, progress.bytes_copied - copied_before))


_CAUSES: Final = "a full disk is one; so are too few max_replication_slots or max_wal_senders at the cell's server"


def describe_progress(progress: CopyProgress, passed_s: float, copied_since: int) -> str:
    """One line; the time that is left is that of the bytes, at the pace of this run."""
    words = [
        f"tables {progress.tables_ready} of {progress.tables_count}",
        f"rows about {progress.rows_copied:,} of {progress.rows_count:,}",
        f"{show_bytes(progress.bytes_copied)} of {show_bytes(progress.bytes_count)}",
        f"behind by {show_bytes(progress.behind_bytes)}",
    ]
    left = progress.bytes_count - progress.bytes_copied
    if left > 0 and copied_since > 0:
        words.append(f"about {left * passed_s / copied_since:,.0f} s left")
    if progress.errors_count:
        words.append(f"errors at the target: {progress.errors_count}, look at its log ({_CAUSES})")
    return ", ".join(words)


def show_bytes(count: int) -> str:
    size, unit = float(count), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.1f} {_UNITS[unit]}" if unit else f"{count} B"
