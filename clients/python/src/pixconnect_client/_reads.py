"""Builders of calls that many operations share."""

from __future__ import annotations

from typing import TypeVar

from pixconnect_client._call import Call, query_of, read_bare, read_page, read_record
from pixconnect_client.lists import Page

RecordT = TypeVar("RecordT")


def get_one(path: str, record: type[RecordT], **parameters: str | int) -> Call[RecordT]:
    return Call(method="GET", path=path, parameters=parameters, read=read_record(record), record=record)


def get_file(path: str, **parameters: str | int) -> Call[bytes]:
    return Call(method="GET", path=path, parameters=parameters, read=lambda answer: answer.content, record=bytes)


def get_page(path: str, record: type[RecordT], id: int | None = None, **query: object) -> Call[Page[RecordT]]:  # noqa: A002  as in the path
    return Call(
        method="GET",
        path=path,
        parameters={} if id is None else {"id": id},
        query=query_of(**query),
        read=read_page(record),
        record=record,
    )


def change_one(
    method: str,
    path: str,
    record: type[RecordT],
    id: int | None = None,  # noqa: A002  as in the path
    body: object = None,
) -> Call[RecordT]:
    """Build a change without an idempotency key, which is sent only once."""
    return Call(
        method=method,
        path=path,
        parameters={} if id is None else {"id": id},
        body=body,
        read=read_record(record),
        record=record,
    )


def ask_identity(path: str, record: type[RecordT]) -> Call[RecordT]:
    """Build a request for a public document of the identity service."""
    return Call(method="GET", path=path, is_authorized=False, is_identity=True, read=read_bare(record), record=record)
