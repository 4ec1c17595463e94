"""One operation of the service as a value: what to send, and how to read what comes back. Nothing here sends anything."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec

from pixconnect_client.events import Event, read_event
from pixconnect_client.lists import Page, Pagination

AnswerT = TypeVar("AnswerT")
ItemT = TypeVar("ItemT")

Content = bytes | msgspec.Raw


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    content: bytes = field(repr=False)
    stream: Any = None
    """What its octets are read from, where they are not in ``content``."""


@dataclass(frozen=True, kw_only=True)
class Call(Generic[AnswerT]):
    """One operation, asked for once.

    Attributes:
        path: As the OpenAPI document has it, with names in braces.
        record: What the answer's ``data`` is, or each item of it.
        external_id: Makes it safe to send it again.
        is_authorized: Whether it needs a token.
        is_identity: Whether it is served at the identity service's address.
        is_streamed: Whether the answer is not read before it is given back.
        also_reads: Statuses beside 2xx whose answer is one.
        extra_timeout_s: How long the service may wait on purpose before it answers.
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
        """Whether a second try cannot have a second effect."""
        return self.is_read or self.external_id is not None

    @property
    def address(self) -> str:
        """The path with its parameters."""
        return self.path.format(**{name: _write_part(name, str(value)) for name, value in self.parameters.items()})


class _Data(msgspec.Struct):
    data: Any


class _Success(msgspec.Struct):
    data: msgspec.Raw


class _Listing(msgspec.Struct):
    data: list[msgspec.Raw]
    pagination: Pagination


def read_record(record: type[ItemT]) -> Callable[[Answer], ItemT]:
    """Reads an answer in its envelope."""
    return lambda answer: _decode(msgspec.json.decode(answer.content, type=_Success).data, record)


def read_bare(record: type[ItemT]) -> Callable[[Answer], ItemT]:
    """Reads an answer that has no envelope."""
    return lambda answer: _decode(answer.content, record)


def read_page(record: type[ItemT]) -> Callable[[Answer], Page[ItemT]]:
    """Reads a page of a list."""
    return lambda answer: _read_listing(answer, lambda raw: _decode(raw, record))


def read_page_of_events(answer: Answer) -> Page[Event]:
    return _read_listing(answer, read_event)


def read_text(answer: Answer) -> str:
    return answer.content.decode()


def read_anything(answer: Answer) -> Any:  # noqa: ANN401  whatever JSON it is
    """``data`` where there is an envelope; otherwise JSON as it is, or text."""
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
        # Only what it asks for: the token goes to no other host, whatever stands there.
        return dict(parse_qsl(urlsplit(address.removeprefix("<")).query, keep_blank_values=True))
    # Lists without cursors are small, and are paged by number.
    return {"page": str(pagination.page + 1)} if pagination.has_next else None


def _write_part(name: str, text: str) -> str:
    # These lead to another address, whose answer would be about something else: that there is none, for example.
    if text in {"", ".", ".."}:
        raise ValueError(f"{name}: {text!r} cannot stand in an address; search for it, or list")
    return quote(text, safe="")


def query_of(**given: object) -> dict[str, str]:
    """A query of what was given; None is left out."""
    return {name: _write(value) for name, value in given.items() if value is not None}


def body_of(**given: object) -> dict[str, object]:
    """A body of what was given; None is left out."""
    return {
        name: _write(value) if isinstance(value, datetime) else value
        for name, value in given.items()
        if value is not None
    }


def make_external_id() -> str:
    """A name that nothing else has, so that what carries it can be sent again."""
    return secrets.token_hex(16)


def _write(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            if value.tzinfo is None:
                raise ValueError(f"{value}: give an instant with its time zone, such as datetime.now(UTC)")
            return value.isoformat()
        case Enum():
            return str(value.value)
        case _:
            return str(value)
