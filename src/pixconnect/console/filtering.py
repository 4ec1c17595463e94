"""Filters as they stand in addresses, so that a link shows to others what it shows to oneself."""

from __future__ import annotations

from collections.abc import Sequence

from pixconnect.console.visit import Visit
from pixconnect.domain.frame import errors
from pixconnect.domain.frame import wanted as wanted_rules
from pixconnect.domain.frame.wanted import Wanted

WHEN_FIELD = "when"
AMOUNT_FIELD = "amount"


def read_or_complain(visit: Visit, statuses: Sequence[str] = (), event_types: Sequence[str] = ()) -> tuple[Wanted, str]:
    """The same, or nothing and why it cannot be read: a list says that beside what was typed."""
    try:
        return read_wanted(visit, statuses, event_types), ""
    except errors.BadRequest as error:
        return Wanted(), str(error)


def read_wanted(visit: Visit, statuses: Sequence[str] = (), event_types: Sequence[str] = ()) -> Wanted:
    """What a list's address asks for; a link of another list may have statuses and types that this one drops."""
    amount, when = visit.query(AMOUNT_FIELD), visit.query(WHEN_FIELD)
    initial_at, final_at = wanted_rules.read_instants(when) if when else (None, None)
    amount_min, amount_max = wanted_rules.read_amounts(amount) if amount else (None, None)
    direction, endpoint = visit.query("direction"), visit.query("endpoint")
    endpoint_id = wanted_rules.read_id(endpoint)
    # Without this refusal the list would be of all endpoints.
    if endpoint and endpoint_id is None:
        raise errors.BadRequest("endpoint: is no id")
    return Wanted(
        statuses=tuple(each for each in statuses if each in visit.request.query_params.getlist("status")),
        event_types=tuple(each for each in event_types if each in visit.request.query_params.getlist("type")),
        amount_min_cents=amount_min,
        amount_max_cents=amount_max,
        initial_at=initial_at,
        final_at=final_at,
        direction="IN" if direction == "IN" else "OUT" if direction == "OUT" else None,
        counterparty=visit.query("who") or None,
        name_part=visit.query("part") or None,
        endpoint_id=endpoint_id,
    )
