"""What verbs of one holder have in common: records as they are printed, names of all kinds, and waiting for an end."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Annotated, Final, TypeVar

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number
from msgspec import Struct

from pixconnect.cli import output, terminal
from pixconnect.cli.exit_status import ExitStatus
from pixconnect.cli.failures import CommandError
from pixconnect.cli.whole_number import WHOLE_NUMBER
from pixconnect_client import InvalidRequest, Items, NotFound

Record = TypeVar("Record", bound=Struct)
Item = TypeVar("Item")

MONEY: Final = frozenset({"amount", "available_funds", "current_funds"})
"""Amounts, which people are shown as reais."""
_ASKED_AGAIN_AFTER_S: Final = 0.3

Amount = Annotated[int, WHOLE_NUMBER, Parameter(validator=Number(gte=1))]
AnyId = Annotated[str, Parameter(allow_leading_hyphen=True)]
ExternalId = Annotated[
    str | None, Parameter(help="Your own name for it: asked again under it, the same is answered. Made if left out.")
]
Limit = Annotated[int, WHOLE_NUMBER, Parameter(validator=Number(gte=1), help="The most to print.")]
TimeoutS = Annotated[
    float | None, Parameter(validator=Number(gt=0), help="Give up after so many seconds; without, never.")
]


def shown(record: Struct) -> output.Shown:
    """A record as JSON has it."""
    return msgspec.to_builtins(record)


def show(record: Struct, *, as_json: bool) -> None:
    output.show(shown(record), as_json=as_json, money=MONEY)


def show_items(name: str, items: Sequence[Record], columns: Sequence[str], *, as_json: bool) -> None:
    found = [shown(item) for item in items]
    output.show_list(name, found, as_json=as_json, columns=columns, money=MONEY)


def newest(lists: Iterable[Items[Item]], limit: int, by: Callable[[Item], int | datetime]) -> list[Item]:
    """The newest so many of several lists, each of which begins with its newest."""
    taken = [item for items in lists for item in islice(items, limit)]
    return sorted(taken, key=by, reverse=True)[:limit]


def find(kind: str, any_id: str, by_id: Callable[[int], Item], *by_name: Callable[[str], Item]) -> Item:
    """What has this name, whichever of its names it is; a number is an id of ours before it is anything else."""
    if any_id.isascii() and any_id.isdecimal() and int(any_id) < 2**53:
        try:
            return by_id(int(any_id))
        except NotFound:
            pass
    for read in by_name:
        try:
            return read(any_id)
        except (NotFound, InvalidRequest):
            # It may have the form of one kind of name and not of another.
            continue
    raise CommandError(f"there is no {kind} {any_id} of this holder")


def watch(
    read: Callable[[], Record], under_way: Collection[str], hoped: str, timeout_s: float | None, *, as_json: bool
) -> None:
    """Print something whenever its status changes, until it ends.

    Raises:
        CommandError: It ended otherwise than was hoped, or not in time.
    """
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    seen: str | None = None
    while True:
        record = read()
        status = str(shown(record)["status"])
        if status != seen:
            if as_json:
                output.show_json(shown(record))
            else:
                terminal.say(f"{datetime.now().astimezone():%H:%M:%S}  {terminal.paint_state(status)}")  # noqa: TID251  a person's own time
            seen = status
        if status not in under_way:
            break
        if deadline_s is not None and time.monotonic() >= deadline_s:
            raise CommandError(f"it is still {status} after {timeout_s:g} s", status=ExitStatus.ENDED_BADLY)
        time.sleep(_ASKED_AGAIN_AFTER_S)
    if seen != hoped:
        raise CommandError(f"it ended as {seen}", status=ExitStatus.ENDED_BADLY)


def parse_instant(option: str, text: str, *, is_end: bool = False) -> datetime:
    """An instant: RFC 3339, or a day in UTC, which as an end includes all of it."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(
            f"{option}: must be a day (2026-11-20) or an instant (2026-11-20T12:00:00Z); it is {text!r}"
        ) from None
    if len(text) == len("2026-11-20") and is_end:
        found += timedelta(days=1, microseconds=-1)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
