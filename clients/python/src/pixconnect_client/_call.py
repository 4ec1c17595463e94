"""A request to the service as a value: what to send and how to decode the response. Nothing here does I/O."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec

from pixconnect_client.errors import InvalidArgument
from pixconnect_client.events import Event, read_event
from pixconnect_client.lists import Page, Pagination

AnswerT = TypeVar("AnswerT")
ItemT = TypeVar("ItemT")

Content = bytes | msgspec.Raw


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A response."""

    status: int
    headers: Mapping[str, str]
    """Header names in lower case."""
    content: bytes = field(repr=False)
    stream: Any = None
    """The open response to read from, if the body is not in ``content``."""


@dataclass(frozen=True, kw_only=True)
class Call(Generic[AnswerT]):
    """One request for one operation.

    Attributes:
        path: The path template of the OpenAPI document.
        record: The type of the response's ``data``, or of each item in it.
        external_id: The idempotency key, which makes a retry safe.
        is_authorized: Whether it needs an access token.
        is_identity: Whether it goes to the identity service's address.
        is_streamed: Whether the response is returned before its body is read.
        also_reads: Statuses other than 2xx that are a result.
        extra_timeout_s: How long the service may hold the request before it responds.
    """

    method: str
    path: str
    read: Callable[[Answer], AnswerT]
    record: Any = None
    parameters: Mapping[str, str | int] = field(default_factory=dict[str, "str | int"])
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    body: object = None
    external_id: str | None = None
    is_authorized: bool = True
    is_identity: bool = False
    is_streamed: bool = False
    also_reads: tuple[int, ...] = ()
    extra_timeout_s: float = 0

    @property
    def is_read(self) -> bool:
        return self.method == "GET"

    @property
    def is_repeatable(self) -> bool:
        """Whether a retry cannot have a second effect."""
        return self.is_read or self.external_id is not None

    @property
    def address(self) -> str:
        """The path with its parameters filled in."""
        return self.path.format(**{name: _write_part(name, str(value)) for name, value in self.parameters.items()})


class _Data(msgspec.Struct):
    data: Any


class _Success(msgspec.Struct):
    data: msgspec.Raw


class _Listing(msgspec.Struct):
    data: list[msgspec.Raw]
    pagination: Pagination


def read_record(record: type[ItemT]) -> Callable[[Answer], ItemT]:
    """Return a decoder for a response in the envelope."""
    return lambda answer: _decode(msgspec.json.decode(answer.content, type=_Success).data, record)


def read_bare(record: type[ItemT]) -> Callable[[Answer], ItemT]:
    """Return a decoder for a response without an envelope."""
    return lambda answer: _decode(answer.content, record)


def read_page(record: type[ItemT]) -> Callable[[Answer], Page[ItemT]]:
    """Return a decoder for a page of a list."""
    return lambda answer: _read_listing(answer, lambda raw: _decode(raw, record))


def read_page_of_events(answer: Answer) -> Page[Event]:
    return _read_listing(answer, read_event)


def read_text(answer: Answer) -> str:
    return answer.content.decode()


def read_anything(answer: Answer) -> Any:  # noqa: ANN401  any JSON
    """Return ``data`` of an envelope; otherwise the decoded JSON, or text."""
    if "json" not in answer.headers.get("content-type", ""):
        return read_text(answer)
    try:
        return msgspec.json.decode(answer.content, type=_Data).data
    except msgspec.ValidationError:
        return msgspec.json.decode(answer.content)


def _decode(content: Content, record: type[ItemT]) -> ItemT:
    return msgspec.json.decode(content, type=record)


def _read_listing(answer: Answer, read: Callable[[msgspec.Raw], ItemT]) -> Page[ItemT]:
    listing = msgspec.json.decode(answer.content, type=_Listing)
    return Page(
        items=[read(raw) for raw in listing.data],
        pagination=listing.pagination,
        next_query=_find_next(answer.headers.get("link", ""), listing.pagination),
    )


def _find_next(link: str, pagination: Pagination) -> Mapping[str, str] | None:
    address, _, relation = link.partition(">")
    if 'rel="next"' in relation:
        # Use only the query of the link: the token must not be sent to another host.
        return dict(parse_qsl(urlsplit(address.removeprefix("<")).query, keep_blank_values=True))
    # Lists without cursors are small and are paged by number.
    return {"page": str(pagination.page + 1)} if pagination.has_next else None


def _write_part(name: str, text: str) -> str:
    # These segments would address another resource, whose response (such as 404) would be misleading.
    if text in {"", ".", ".."}:
        raise InvalidArgument(f"{name}: {text!r} cannot be part of a URL path; look for it in a list")
    return quote(text, safe="")


def query_of(**given: object) -> dict[str, str]:
    """Return the query parameters that are not None."""
    return {name: _write(value) for name, value in given.items() if value is not None}


def body_of(**given: object) -> dict[str, object]:
    """Return the body members that are not None."""
    return {name: _write(value) if isinstance(value, datetime) else value for name, value in given.items() if value is not None}


def choose_external_id(given: str | None) -> str:
    """Return the caller's external id, or a new unique one, so that the request can be retried."""
    if given in {".", ".."}:
        raise InvalidArgument(f"external_id: {given!r} cannot be part of a URL path, so it could not be found again")
    # An empty one is the caller's mistake, which the service refuses: with a new one, a repeat would pay twice.
    return secrets.token_hex(16) if given is None else given


def list_of(texts: Sequence[str]) -> list[str]:
    """Return a list of texts. One text alone is one item, not its letters."""
    return [texts] if isinstance(texts, str) else [*texts]


def make_webhook_secret() -> str:
    """Return a new secret in the form of the Standard Webhooks specification."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def _write(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            if value.tzinfo is None:
                raise InvalidArgument(f"{value}: must have a time zone, such as datetime.now(UTC)")
            return value.isoformat()
        case Enum():
            return str(value.value)
        case _:
            return str(value)
