"""The parameters of paths: how each is read, and what the description says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pixconnect.api.frame import decoding
from pixconnect.api.frame.operation import Parameter
from pixconnect.domain.frame import errors

_ID_MAX: Final = 2**53 - 1


def _read_id(text: str) -> int:
    number = decoding.read_integer("id", text)
    if not 1 <= number <= _ID_MAX:
        # No resource has such an id, and PostgreSQL cannot even represent some of them.
        raise errors.NotFound(f"id: there is nothing with the id {text[:20]}")
    return number


def _text(name: str, description: str) -> Parameter[str]:
    # Any text is valid: one of the wrong form names nothing, which is NOT_FOUND and not BAD_REQUEST.
    return Parameter(name=name, read=str, schema=_schema("string", minLength=1), description=description)


def _schema(kind: str, **limits: object) -> Mapping[str, object]:
    return {"type": kind, **limits}


NONE: Final = Parameter[None](name="", read=lambda text: errors.ensure(not text, text), schema={}, description="")
PAGE: Final = _text("page", "The name of a page of the documentation; with `.md` it is answered as Markdown.")
PICTURE: Final = _text("picture", "The name of a picture of the documentation, with its suffix.")
ID: Final = Parameter[int](
    name="id",
    read=_read_id,
    schema=_schema("integer", format="int64", minimum=1, maximum=_ID_MAX),
    description="The `id` that the service gave it.",
)
EXTERNAL_ID: Final = Parameter[str](
    name="externalId",
    read=lambda text: decoding.read_text("externalId", text, 255),
    schema=_schema("string", minLength=1, maxLength=255),
    description="The `external_id` that you gave it, percent-encoded (`/` as `%2F`).",
)
TXID: Final = _text("txid", "The charge's `transaction_identification`.")
INFRACTION: Final = _text("infractionId", "The institution's name of the infraction, its `infraction_id`.")
TOKEN: Final = _text("token", "What the location's address ends with.")
END_TO_END_ID: Final = _text("endToEndId", "The transfer's `end_to_end_id`.")
RETURN_IDENTIFICATION: Final = _text("returnIdentification", "The refund's `return_identification`.")
