"""Streamed downloads of any length. An aborted download raises an error instead of ending early."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from types import TracebackType
from typing import Self

from pixconnect_client._call import Answer, Call, query_of
from pixconnect_client.enums import StatementFormat
from pixconnect_client.errors import NoAnswer


def ask_for_statement(
    initial_date: datetime,
    final_date: datetime,
    format: StatementFormat | str,  # noqa: A002  as the service calls it
    language: str | None,
) -> Call[Answer]:
    return Call(
        method="GET",
        path="/v1/connect/ledger/statement",
        query=query_of(initial_date=initial_date, final_date=final_date, format=format, language=language),
        is_streamed=True,
        read=lambda answer: answer,
        record=bytes,
    )


class _File:
    def __init__(self, answer: Answer) -> None:
        self._stream = answer.stream
        self.media_type = answer.headers.get("content-type", "")
        disposition = answer.headers.get("content-disposition", "")
        suggested = disposition.partition('filename="')[2].partition('"')[0]
        self.file_name = suggested.replace("\\", "/").rpartition("/")[2]
        """The file name that the service suggests, without a path; empty if there is none."""


class Download(_File):
    """Iterate over the bytes, once."""

    def __iter__(self) -> Iterator[bytes]:
        import httpx2  # noqa: PLC0415  it is loaded already, by who made this

        try:
            yield from self._stream.iter_bytes()
        except httpx2.HTTPError as error:
            raise NoAnswer(f"the download was aborted: {error}", may_have_happened=False) from error

    def close(self) -> None:
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class AsyncDownload(_File):
    """Iterate over the bytes with ``async for``, once."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        import httpx2  # noqa: PLC0415  it is loaded already, by who made this

        try:
            async for some in self._stream.aiter_bytes():
                yield some
        except httpx2.HTTPError as error:
            raise NoAnswer(f"the download was aborted: {error}", may_have_happened=False) from error

    async def close(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
