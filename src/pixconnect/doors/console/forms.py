"""Reads forms: limited to the octets and fields of our own forms, counted before anything is parsed."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import Response

from pixconnect.doors.console import wanted as wanted_rules
from pixconnect.doors.console.visit import Visit
from pixconnect.doors.console.wanted import Wanted
from pixconnect.platform.base import errors

AMOUNT_FIELD = "amount"


async def show_list(
    visit: Visit,
    template: str,
    read: Callable[[Wanted, str | None], Awaitable[object]],
    *,
    statuses: Sequence[str] = (),
    event_types: Sequence[str] = (),
    **values: Any,  # noqa: ANN401  what the template takes
) -> Response:
    """Return the page of a list; unreadable filters are refused beside the typed text."""
    try:
        wanted, complaint = read_wanted(visit, statuses, event_types), ""
    except errors.BadRequest as error:
        wanted, complaint = Wanted(), str(error)
    page = None if complaint else await read(wanted, visit.query("after") or None)
    values |= dict(page=page, statuses=statuses, event_types=event_types, wanted=wanted, complaint=complaint)
    return visit.page(template, status=400 if complaint else 200, **values)


def read_wanted(visit: Visit, statuses: Sequence[str] = (), event_types: Sequence[str] = ()) -> Wanted:
    """Read the filters of a list's address; statuses and types of another list are dropped."""
    amount, now = visit.query(AMOUNT_FIELD), visit.context.clock.now()
    initial_at, final_at = wanted_rules.read_instants(visit.when, now) if visit.when else (None, None)
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


FORM_SIZE_MAX: Final = 64 * 1024
FIELDS_MAX: Final = 200
DOOR_SIZE_MAX: Final = 4 * 1024  # the limit for a public form: a name, a password, a code, and the next address
DOOR_FIELDS_MAX: Final = 32
_MEDIA_TYPE: Final = "application/x-www-form-urlencoded"


async def read_form(request: Request, *, size_max: int = FORM_SIZE_MAX, fields_max: int = FIELDS_MAX) -> FormData:
    """Read the fields of a form; files are ignored. ``PayloadTooLarge`` if it has more octets."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _MEDIA_TYPE:
        raise errors.BadRequest("form: no page of the console sends such a form")
    body = await _read_body(request, size_max)
    try:
        # It counts the fields before it makes the first one.
        read = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=fields_max)
    except ValueError as error:
        raise errors.BadRequest(f"form: has more than {fields_max} fields") from error
    fields: list[tuple[str, str | UploadFile]] = [*read]
    return FormData(fields)


def read_field(form: FormData, name: str) -> str:
    """Return a field's text without blanks around it; empty if there is none."""
    value = form.get(name, "")
    return value.strip() if isinstance(value, str) else ""


async def _read_body(request: Request, size_max: int) -> bytes:
    refusal = errors.PayloadTooLarge(f"form: must have at most {size_max} bytes")
    # A too large declared size is refused unread; chunks are counted as they come.
    if int(request.headers.get("content-length", "0")) > size_max:
        raise refusal
    parts, size = list[bytes](), 0
    async for part in request.stream():
        size += len(part)
        if size > size_max:
            raise refusal
        parts.append(part)
    return b"".join(parts)
