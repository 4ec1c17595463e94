"""Shared by one holder's verbs: printing records, and waiting for an end."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Annotated, Any, Final, TypeVar

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number
from msgspec import Struct

from pixconnect.doors.cli import output, terminal
from pixconnect.doors.cli.failures import CommandError, ExitStatus
from pixconnect.doors.cli.whole_number import WHOLE_NUMBER
from pixconnect.platform.base.clock import SAO_PAULO
from pixconnect_client import Charge, InvalidRequest, NotFound, Refund, Transfer

Record = TypeVar("Record", bound=Struct)
Item = TypeVar("Item")
Asked = TypeVar("Asked", int, str)
Named = TypeVar("Named", Charge, Transfer, Refund)

MONEY: Final = frozenset({"amount", "amount_returned", "held", "taken", "available_funds", "current_funds"})
"""Amounts, shown to people as reais."""
_NETWORK_NAME: Final = re.compile(r"[ED][0-9]{20}[0-9A-Za-z]{11}")  # the form of end-to-end ids and return identifications
_ASKED_AGAIN_AFTER_S: Final = 0.3

Amount = Annotated[int, WHOLE_NUMBER, Parameter(validator=Number(gte=1))]


def _refuse_empty(_type: Any, text: str) -> None:  # noqa: ANN401  as the parser calls it
    if not text.strip():
        raise ValueError("must not be empty; a shell variable may have no value")


AnyId = Annotated[str, Parameter(allow_leading_hyphen=True, validator=_refuse_empty)]
ExternalId = Annotated[
    str | None,
    Parameter(
        help="Your own name for it: repeating the verb with the same name answers the first result. Generated if left out."
    ),
]
ByExternalId = Annotated[
    bool,
    Parameter(
        name="--external-id",
        negative=(),
        show_default=False,
        help="Take the name as your external_id, even if it looks like an id.",
    ),
]
Limit = Annotated[int, WHOLE_NUMBER, Parameter(validator=Number(gte=1), help="The most to print.")]
LimitOfEach = Annotated[int, WHOLE_NUMBER, Parameter(validator=Number(gte=1), help="Print at most this many of each status.")]
TimeoutS = Annotated[
    float | None, Parameter(validator=Number(gt=0), help="Give up after this many seconds; without it, never.")
]


def shown(record: Struct) -> output.Shown:
    return msgspec.to_builtins(record, builtin_types=(datetime,))


def show(record: Struct, *, as_json: bool) -> None:
    output.show(shown(record), as_json=as_json, money=MONEY)


def show_items(name: str, items: Sequence[Record], columns: Sequence[str], *, as_json: bool) -> None:
    found = [shown(item) for item in items]
    output.show_list(name, found, as_json=as_json, columns=columns, money=MONEY)


def read_each(listing: Callable[..., Iterable[Named]], statuses: Sequence[str], limit: int) -> list[Named]:
    """Read the first of each status's list; an item that moved between two lists counts once, in its latest state."""
    found = dict[int, Named]()
    for status in statuses:
        for record in take(listing(status=status, page_size=min(limit + 1, 100)), limit, status):
            found.pop(record.id, None)
            found[record.id] = record
    return list(found.values())


def take(listing: Iterable[Named], limit: int, status: str = "") -> list[Named]:
    """Read the first of a list; a notice says that there are more."""
    first = [*islice(listing, limit + 1)]
    if len(first) > limit:
        terminal.notice(f"{f'{status}: ' if status else ''}the newest {limit} are shown; --limit shows more")
    return first[:limit]


def find(
    kind: str,
    any_id: str,
    by_id: Callable[[int], Named],
    by_external_id: Callable[[str], Named],
    by_name: Callable[[str], Named],
    *,
    is_external_id: bool,
) -> Named:
    """Find a resource by any of its names; if two have the name, print a line that names the one taken.

    Args:
        by_name: By its name on the network.
        is_external_id: Search by external id only.
    """
    any_id = any_id if is_external_id else join_groups(any_id)
    if is_external_id:
        found = _look(by_external_id, any_id)
    elif (number := read_id(any_id)) is not None:
        found, other = _look(by_id, number), _look(by_external_id, any_id)
        if found and other and found.id != other.id:
            terminal.notice(
                f"{any_id} is the id of this {kind}, and the external_id of another, whose id is {other.id}: "
                "--external-id takes that one"
            )
        found = found or other
    else:
        # The kind of name that it looks like comes first: each failed query appears in the service's log as a refusal.
        first, second = (by_name, by_external_id) if _NETWORK_NAME.fullmatch(any_id) else (by_external_id, by_name)
        found = _look(first, any_id) or _look(second, any_id)
    if found is None:
        raise CommandError(f"there is no {kind} {any_id} of this holder")
    return found


def join_groups(text: str) -> str:
    """A name of the network as one word, which people write and copy in groups; any other text unchanged."""
    return joined if _NETWORK_NAME.fullmatch(joined := "".join(text.split())) else text


def read_id(text: str) -> int | None:
    """Read an id of the service; ``None`` if the text is a name of another kind."""
    return int(text) if text.isascii() and text.isdecimal() and int(text) < 2**53 else None


def _look(read: Callable[[Asked], Named], name: Asked) -> Named | None:
    try:
        return read(name)
    except (NotFound, InvalidRequest):
        # It may have the form of one kind of name and not of another.
        return None


def watch(
    read: Callable[[], Record], under_way: Collection[str], hoped: str, timeout_s: float | None, *, as_json: bool
) -> None:
    """Print something whenever its status changes, until it ends."""
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    seen: str | None = None
    while True:
        record = read()
        status = str(shown(record)["status"])
        if status != seen:
            if as_json:
                output.show_json(shown(record))
            else:
                terminal.print_line(f"{datetime.now(SAO_PAULO):%H:%M:%S}  {terminal.paint_state(status)}")  # noqa: TID251  real time
            seen = status
        if status not in under_way:
            break
        if deadline_s is not None and time.monotonic() >= deadline_s:
            raise CommandError(f"it is still {status} after {timeout_s:g} s", status=ExitStatus.ENDED_BADLY)
        time.sleep(_ASKED_AGAIN_AFTER_S)
    if seen != hoped:
        raise CommandError(f"it ended as {seen}", status=ExitStatus.ENDED_BADLY)


def parse_span(since: str | None, until: str | None) -> tuple[datetime | None, datetime | None]:
    """Parse the first and the last instant that ``--since`` and ``--until`` include."""
    first = None if since is None else parse_instant("--since", since)
    last = None if until is None else parse_instant("--until", until, is_end=True)
    if first and last and first > last:
        raise CommandError(f"--since: must not be after --until; it is {since!r}, and --until is {until!r}")
    return first, last


def parse_instant(option: str, text: str, *, is_end: bool = False) -> datetime:
    """Parse an instant, or a day, which as an end is included as a whole; without an offset they are of Sao Paulo."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(
            f"{option}: must be a day (2026-11-20) or an instant (2026-11-20T12:00:00-03:00); it is {text!r}"
        ) from None
    if len(text) == len("2026-11-20") and is_end:
        found += timedelta(days=1, microseconds=-1)
    try:
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=SAO_PAULO).astimezone(UTC)
    except OverflowError:  # on the calendar's first or last day
        return found.replace(tzinfo=UTC)
