"""``pixconnect balance`` and ``statement``: the account's balances, and its history on the terminal or as a file."""

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, BinaryIO, Final

from cyclopts import Parameter

from pixconnect.doors.cli import output, records, terminal
from pixconnect.doors.cli.failures import CommandError
from pixconnect.doors.cli.integrator.session import Session, open_session
from pixconnect.doors.cli.output import Json
from pixconnect.features.statements.rules import ENDINGS, SUSPECT_TEXTS, Format
from pixconnect.kernel.rules.money import show_reais
from pixconnect.platform.base.clock import as_days, format_local, to_day
from pixconnect.platform.local.home import is_disk_full
from pixconnect_client import Direction, Statement, StatementLine

_DAYS: Final = 30
_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_AHEAD_MAX: Final = timedelta(days=366)
_COLUMNS: Final = ("id", "create_timestamp", "impact_type", "amount", "running_balance", "description")
_MONEY: Final = ("amount", "running_balance")
_PROGRESS_EVERY_OCTETS: Final = 1 << 20
_BY_ENDING: Final = {ending: name for name, ending in ENDINGS.items()}


def statement(
    *,
    since: str | None = None,
    until: str | None = None,
    out: Annotated[str | None, Parameter(name=("--output", "-o"))] = None,
    format: Annotated[Format | None, Parameter(show_default=False)] = None,  # noqa: A002  as the service calls it
    json: Json = False,
) -> None:
    """Print every change of the account's funds, or write it to a file, all or nothing.

    Args:
        since: The first day (2026-11-20, 20/11, yesterday; in Sao Paulo) or instant included; by default 30 days ago.
        until: The last day or instant included; by default now.
        out: A file; `-` is standard output.
        format: The file's format; by default by its extension.
    """
    if out is None and format is not None:
        raise CommandError("--format: is for files; name one with -o")
    wanted = None if out is None else format or _guess_format(out)
    with open_session() as session:
        now = session.read_now()
        first, last = records.parse_span(since and as_days(since, now), until and as_days(until, now))
        last = last or now
        first = first or last - min(timedelta(days=_DAYS), last - _FIRST)
        if first > last:
            rule = "must not be after now, where a statement without --until ends"
            raise CommandError(f"--since: {rule}; it is {since!r}, and now is {format_local(now)}")
        if out is None or wanted is None:
            _show(session.client.statement(first, last), (first, last), as_json=json)
        elif out == "-":
            _copy(session, (first, last), wanted, sys.stdout.buffer, shows_progress=False)
        else:
            _write_file(session, (first, last), wanted, Path(out))
        if until is None:
            _warn_of_later(session, now)


def _warn_of_later(session: Session, now: datetime) -> None:
    """Report entries dated after now, which only a sandbox has: its clock was moved, and a holder's instants only rise."""
    later = session.client.statement(now, now + _AHEAD_MAX).lines if session.credentials.mode != "live" else []
    if later:
        terminal.notice(
            f"not shown, because the sandbox's clock was ahead when they were dated: {len(later)}; "
            f"`pixconnect statement --until {to_day(later[-1].create_timestamp)}` has them"
        )


def _show(found: Statement, span: tuple[datetime, datetime], *, as_json: bool) -> None:
    shown = records.shown(found)
    if as_json:
        output.show_json(shown)
        return
    output.show_list("lines", shown["lines"], as_json=False, columns=_COLUMNS, money=_MONEY)
    if not found.lines:
        # Without --since it is thirty days before the end, which may be past or future.
        terminal.notice(f"no entry from {to_day(span[0])} to {to_day(span[1])}")
    totals: dict[str, int] = dict.fromkeys(("in", "given back", "out", "held as suspect", "no longer held"), 0)
    for line in found.lines:
        totals[_name_way(line)] += line.amount
    moved = ", ".join(f"{show_reais(cents)} {way}" for way, cents in totals.items() if cents or way in ("in", "out"))
    terminal.notice(f"{show_reais(found.opening_balance)} before; {moved}; {show_reais(found.closing_balance)} after")


def _name_way(line: StatementLine) -> str:
    """Name the total of a line as the console's ledger does."""
    is_in = line.impact_type is Direction.IN
    # The API's lines of suspect credits have no other mark, and no end-to-end id; a refund's text is its author's.
    if line.end_to_end_id is None and line.description == SUSPECT_TEXTS.get(("en", line.impact_type)):
        return "held as suspect" if is_in else "no longer held"
    return "in" if is_in else "given back" if line.return_identification else "out"


def _guess_format(out: str) -> str:
    ending = Path(out).suffix.lower().removeprefix(".")
    wanted = _BY_ENDING.get(ending, ending)
    if wanted not in ENDINGS:
        raise CommandError(f"--format: missing; the file's name ends in none of .{', .'.join(_BY_ENDING)}")
    return wanted


def _write_file(session: Session, span: tuple[datetime, datetime], wanted: str, path: Path) -> None:
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
    # A device or a pipe cannot be replaced by a file.
    is_file = path.is_file() or not path.exists()
    try:
        with unfinished.open("xb") if is_file else path.open("wb") as file:
            octets_count = _copy(session, span, wanted, file, shows_progress=terminal.is_terminal(sys.stderr))
            if is_file:
                os.fsync(file.fileno())
        if is_file:
            unfinished.replace(path)
    except OSError as error:
        reason = "the disk is full" if is_disk_full(error) else error.strerror or str(error)
        raise CommandError(f"{path}: {reason}; nothing was written") from None
    finally:
        # Interrupted or refused: no file with the final name is incomplete, and the temporary one is removed.
        unfinished.unlink(missing_ok=True)
    terminal.notice(f"{path}: {octets_count:,} octets")


def _copy(session: Session, span: tuple[datetime, datetime], wanted: str, file: BinaryIO, *, shows_progress: bool) -> int:
    octets_count, shown_count = 0, 0
    try:
        with session.client.download_statement(*span, wanted) as download:
            for some in download:
                file.write(some)
                octets_count += len(some)
                if shows_progress and octets_count - shown_count >= _PROGRESS_EVERY_OCTETS:
                    shown_count = octets_count
                    sys.stderr.write(f"\r{octets_count >> 20} MiB")
                    sys.stderr.flush()
        file.flush()
    except BrokenPipeError:
        terminal.silence_output()
        raise terminal.ReaderGone from None
    finally:
        if shown_count:
            sys.stderr.write("\n")
    return octets_count


def balance(*, json: Json = False) -> None:
    """Print the account's balance, and how much of it is available."""
    with open_session() as session:
        records.show(session.client.balance(), as_json=json)
