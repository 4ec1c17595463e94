"""The table of events, in the exact bytes sent."""

from collections.abc import Iterable
from functools import cache
from typing import Any, Final, cast

from pixconnect.kernel.feature import gather
from pixconnect.kernel.rules.event import Event
from pixconnect.kernel.tables.fact import Fact
from pixconnect.kernel.tables.table import Table, of_columns

EVENT: Final = Table(
    "event",
    Event,
    """
    id bigint, holder_id bigint, name text, resource text, resource_id bigint, slot smallint, body text,
    created_at timestamptz
    """,
)

# It returns the rows from which the same statement makes deliveries (``features/webhooks/tables/delivery.py``).
APPEND: Final = of_columns(
    EVENT,
    name="event_row",
    once=["name, resource, created_at, holder_id", "name, resource, created_at"],
    sql="insert into event ({names}) {rows} returning id, holder_id, name, resource, resource_id, slot, created_at",
)


@cache
def _list_facts() -> tuple[Fact[Any], ...]:
    return gather("event_facts", cast("type[Fact[Any]]", Fact))


def _follow(_: Event | None, event: Event | None) -> Iterable[tuple[Fact[Any], Any]]:
    return [(fact, event) for fact in _list_facts()]


EVENTS: Final = Fact(rank=200, inserts=(APPEND,), key=None, follow=_follow)
