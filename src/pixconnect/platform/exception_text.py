"""Writes exceptions for the log, without the rows and arguments that database errors quote.

PostgreSQL quotes rows in error details and the driver quotes arguments: names, tax ids, keys. For database errors, and their
causes, only the type, the constraint and the SQLSTATE are written.
"""

import sys
import threading
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import cast

_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"


def write_exception(error: BaseException) -> str:
    """Write the whole traceback, with causes and groups, without the values of a row."""
    return "".join(_write(error, set(), is_of_database=False)).rstrip("\n")


def name_database_error(error: BaseException) -> str:
    """Return the type of a database error, with any constraint and SQLSTATE."""
    found = {name: getattr(error, name, None) for name in ("sqlstate", "constraint_name")}
    known = ", ".join(f"{name.removesuffix('_name')} {value}" for name, value in found.items() if value)
    kind = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    return f"{kind}: {known}" if known else kind


def is_database_error(error: BaseException) -> bool:
    """Whether the error's text may quote a row or an argument."""
    # Recognised by its form, so that this file imports no driver.
    return hasattr(error, "sqlstate") or type(error).__module__.partition(".")[0] == "asyncpg"


def hide_rows_in_tracebacks() -> None:
    """Write uncaught exceptions to standard error in the same way."""

    def write(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        sys.stderr.write(f"{write_exception(error or kind())}\n")

    sys.excepthook = write
    threading.excepthook = lambda ended: write(ended.exc_type, ended.exc_value, ended.exc_traceback)


def _write(error: BaseException, written: set[int], *, is_of_database: bool) -> Iterator[str]:
    # Causes may be cyclic; each exception is written once.
    written.add(id(error))
    is_of_database = is_of_database or is_database_error(error)
    cause, context = error.__cause__, None if error.__suppress_context__ else error.__context__
    if cause is not None and id(cause) not in written:
        yield from _write(cause, written, is_of_database=is_of_database)
        yield _CAUSE
    elif context is not None and id(context) not in written:
        yield from _write(context, written, is_of_database=False)
        yield _CONTEXT
    if error.__traceback__ is not None:
        yield "Traceback (most recent call last):\n"
        yield from traceback.format_tb(error.__traceback__)
    if is_of_database:
        yield f"{name_database_error(error)}\n"
    else:
        yield from traceback.format_exception_only(error)
    is_group = isinstance(error, BaseExceptionGroup)
    parts = cast("BaseExceptionGroup[BaseException]", error).exceptions if is_group else ()
    for number, part in enumerate(parts, start=1):
        yield f"  {number} of {len(parts)} in the group:\n"
        for text in _write(part, written, is_of_database=is_of_database):
            yield from (f"  {line}\n" for line in text.splitlines())
