"""Reads forms: as many octets and fields as a form of ours can have, counted before anything is parsed."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request

from pixconnect.domain.frame import errors

FORM_SIZE_MAX: Final = 64 * 1024
FIELDS_MAX: Final = 200
DOOR_SIZE_MAX: Final = 4 * 1024
"""The limit for a form that anybody may send: a name, a password, a code, and the next address."""
DOOR_FIELDS_MAX: Final = 32
_MEDIA_TYPE: Final = "application/x-www-form-urlencoded"


async def read_form(request: Request, *, size_max: int = FORM_SIZE_MAX, fields_max: int = FIELDS_MAX) -> FormData:
    """The fields of a form; a file is none.

    Raises:
        PayloadTooLarge: It has more octets.
    """
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
    """A field's text without blanks around it; empty if there is none."""
    value = form.get(name, "")
    return value.strip() if isinstance(value, str) else ""


async def _read_body(request: Request, size_max: int) -> bytes:
    refusal = errors.PayloadTooLarge(f"form: must have at most {size_max} bytes")
    # We refuse a declared size unread; for chunks we count as they come.
    if int(request.headers.get("content-length", "0")) > size_max:
        raise refusal
    parts, size = list[bytes](), 0
    async for part in request.stream():
        size += len(part)
        if size > size_max:
            raise refusal
        parts.append(part)
    return b"".join(parts)
