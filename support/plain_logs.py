"""Lets lines of the log that a test writes have plain tracebacks.

Unless told otherwise structlog draws them with rich, with the source and the values around each line, which takes
seconds for one exception.
"""

import structlog


def use_plain_logs() -> None:
    """As structlog writes by default, but for the tracebacks; also what loggers write that have written before."""
    processors = structlog.get_config()["processors"]
    structlog.reset_defaults()
    renderer = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    processors[:] = [*structlog.get_config()["processors"][:-1], renderer]
    structlog.configure(processors=processors)
