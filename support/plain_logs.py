"""Lets lines of the log that a test writes have plain tracebacks, or none be written.

Unless told otherwise structlog draws them with rich, with the source and the values around each line, which takes
seconds for one exception.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from structlog.typing import EventDict


def use_plain_logs() -> None:
    """As structlog writes by default, but for the tracebacks; also what loggers write that have written before."""
    processors = structlog.get_config()["processors"]
    structlog.reset_defaults()
    renderer = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    processors[:] = [*structlog.get_config()["processors"][:-1], renderer]
    structlog.configure(processors=processors)


@contextmanager
def writing_no_line() -> Iterator[None]:
    """Let each line of a failure fail itself: the process has no memory for it."""

    def write(_logger: object, _method: str, said: EventDict) -> EventDict:
        if said.get("exc_info"):
            raise MemoryError
        return said

    # In place, as above.
    processors = structlog.get_config()["processors"]
    processors.insert(0, write)
    try:
        yield
    finally:
        processors.remove(write)
