"""The port to trace collectors: a span for each timed step, linked to its parent.

Where no traces are sent there is no tracer. A trace contains no texts and no names: the contents of requests, payees, addresses
and secrets stay here.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final, Literal, Protocol
from urllib.parse import urlsplit

from pixconnect import __version__
from pixconnect.platform.config import Settings, SettingsError, is_loopback_host

SpanKind = Literal["server", "internal", "client"]
Fact = str | int  # an attribute of a span: one of our words, or a number
NO_FACTS: Final[Mapping[str, Fact]] = {}


class TraceSpan(Protocol):
    @property
    def traceparent(self) -> str:
        """For child spans."""
        ...

    def end(self, *, has_failed: bool = False, facts: Mapping[str, Fact] = NO_FACTS) -> None:
        """End it, with its result."""
        ...


class Tracer(Protocol):
    def begin(
        self,
        kind: SpanKind,
        name: str,
        parent: str | None = None,
        *,
        began_at: datetime | None = None,
        facts: Mapping[str, Fact] = NO_FACTS,
    ) -> TraceSpan:
        """Begin a span.

        Args:
            kind: ``server`` answers requests, ``client`` makes them.
            name: One of few: never with an id, an address or a caller's text in it.
            parent: A ``traceparent``; a malformed one counts as none.
            began_at: In real time, if it was before now.
        """
        ...


@asynccontextmanager
async def open_tracer(settings: Settings, process: str) -> AsyncGenerator[Tracer | None]:
    """What sends a process's spans, or ``None``; ``SettingsError`` for a forbidden address or a missing library."""
    if not settings.traces_url:
        yield None
        return
    address = urlsplit(settings.traces_url)
    if settings.mode == "live" and address.scheme != "https" and not is_loopback_host(address.hostname or ""):
        raise SettingsError("PIXCONNECT_TRACES_URL: must be an https:// address, or one of this machine, in live mode")
    try:
        # Here alone: an installation that sends no traces lacks these libraries, and loads nothing of them.
        from pixconnect.features.traces.otlp import OtlpTracer  # noqa: PLC0415
    except ImportError as error:
        raise SettingsError(
            f"PIXCONNECT_TRACES_URL: traces need more packages (there is no {error.name}): pip install 'pixconnect[otel]'"
        ) from None
    tracer = OtlpTracer(settings.traces_url, process, __version__)
    try:
        yield tracer
    finally:
        await tracer.close()
