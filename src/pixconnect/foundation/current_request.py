"""What is known of the request that is being answered, wherever in the service it has come to."""

from contextvars import ContextVar
from typing import Final

current_request: Final[ContextVar[tuple[str, int | None] | None]] = ContextVar("current_request", default=None)
"""Its id and its holder."""

current_trace: Final[ContextVar[str | None]] = ContextVar("current_trace", default=None)
"""The ``traceparent`` that calls to other systems carry on; ``None`` where no traces are sent."""

has_written: Final[ContextVar[bool]] = ContextVar("has_written", default=False)
"""Whether a batch with a part of it was committed: from then on no failure means that nothing was done."""
