"""``pixconnect clock``: the time of the sandbox and the service."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from cyclopts import App

from pixconnect.cli.frame import records, terminal
from pixconnect.cli.frame.failures import CommandError
from pixconnect.cli.frame.output import Json
from pixconnect.cli.integrator.session import open_sandbox

app = App(name="clock", help="The sandbox's clock, which decides when charges expire and retries are due.")

_SPAN: Final = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?")
_SECONDS: Final = (86_400, 3_600, 60, 1)
_SLIGHTLY: Final = timedelta(seconds=5)


@app.default
def show(*, json: Json = False) -> None:
    """Print the time."""
    with open_sandbox() as session:
        records.show(session.client.sandbox.clock(), as_json=json)


@app.command
def advance(span: str, *, json: Json = False) -> None:
    """Move the time forward; all that falls due on the way is done when it returns. It is one for all holders.

    Args:
        span: How far: seconds, or such as 90s, 10m, 1d12h.
    """
    seconds = _read_span(span)
    with open_sandbox() as session:
        records.show(session.client.sandbox.advance_clock(seconds), as_json=json)


@app.command(name="set")
def set_clock(instant: str, *, json: Json = False) -> None:
    """Move the time forward to an instant.

    Args:
        instant: Such as 2026-11-20T12:00:00Z.
    """
    now = records.parse_instant("INSTANT", instant)
    with open_sandbox() as session:
        records.show(session.client.sandbox.set_clock(now), as_json=json)


@app.command
def reset(*, json: Json = False) -> None:
    """Return to real time. Records made while the clock was ahead keep their time."""
    with open_sandbox() as session:
        before = session.client.sandbox.clock().now
        clock = session.client.sandbox.reset_clock()
    if before - clock.now > _SLIGHTLY:
        terminal.notice(
            f"the clock was at {before:%Y-%m-%d %H:%M}: accounts that moved meanwhile date their entries so until that "
            "time has come, and what was made meanwhile stays the newest of every list; "
            f"`pixconnect statement --until {before:%Y-%m-%d}` has them"
        )
    records.show(clock, as_json=json)


def _read_span(span: str) -> int:
    found = _SPAN.fullmatch(span)
    if not span or found is None:
        raise CommandError(f"SPAN: must be seconds, or such as 90s, 10m, 1d12h; it is {span!r}")
    return sum(int(count or 0) * seconds for count, seconds in zip(found.groups(), _SECONDS, strict=True))
