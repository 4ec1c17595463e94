"""Plain tracebacks in a test's log, or lines that cannot be written.

By default structlog draws tracebacks with rich, with source and values, which takes seconds for one exception.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from structlog.typing import EventDict


def use_plain_logs() -> None:
    """Configure structlog with plain tracebacks, also for loggers that were used already."""
    processors = structlog.get_config()["processors"]
    structlog.reset_defaults()
    renderer = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    processors[:] = [*structlog.get_config()["processors"][:-1], renderer]
    structlog.configure(processors=processors)


@contextmanager
def writing_no_line() -> Iterator[None]:
    """Let each log line of a failure raise MemoryError."""

    def write(_logger: object, _method: str, said: EventDict) -> EventDict:
        if said.get("exc_info"):
            raise MemoryError
        return said

    # Changed in place, as above.
    processors = structlog.get_config()["processors"]
    processors.insert(0, write)
    try:
        yield
    finally:
        processors.remove(write)
