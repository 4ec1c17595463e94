"""The port to trace collectors: a span for each timed step, linked to its parent.

Where no traces are sent there is no tracer, and nothing here is used. A trace contains no texts and no names: the contents of
requests, payees, addresses and secrets stay here.

Source: W3C Trace Context, level 1, section 3.2 (``traceparent``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal, Protocol

from msgspec import Struct

SpanKind = Literal["server", "internal", "client"]
Fact = str | int
"""An attribute of a span: one of our words, or a number."""
NO_FACTS: Final[Mapping[str, Fact]] = {}

_FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_LENGTH_MAX: Final = 512


class TraceParent(Struct, frozen=True):
    """The parsed contents of a ``traceparent``."""

    trace_id: int
    span_id: int
    is_sampled: bool


def parse_traceparent(text: str) -> TraceParent | None:
    """Read a ``traceparent``; ``None`` where it is none, which is then as if it had not come (section 4.2)."""
    found = _FORM.fullmatch(text.strip(" \t")) if len(text) <= _LENGTH_MAX else None
    # A later version may have more behind it, which the first cannot; no version is called ff.
    if found is None or found[1] == "ff" or (found[1] == "00" and found[5] is not None):
        return None
    trace_id, span_id = int(found[2], 16), int(found[3], 16)
    return TraceParent(trace_id, span_id, bool(int(found[4], 16) & 1)) if trace_id and span_id else None


def write_traceparent(parent: TraceParent) -> str:
    """Write it as the first version has it."""
    return f"00-{parent.trace_id:032x}-{parent.span_id:016x}-{parent.is_sampled:02x}"


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
            facts: Its attributes at the beginning.
        """
        ...
