"""What sends and waits: the only module that loads httpx, which takes longer to load than all the rest."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import httpx

from pixconnect_client._call import Answer, Call
from pixconnect_client._core import Conversation, Core, Send, Step, Token, Wait
from pixconnect_client.errors import NoAnswer, PixConnectError
from pixconnect_client.lists import AsyncItems, Items, Page

AnswerT = TypeVar("AnswerT")
ItemT = TypeVar("ItemT")

# After these nothing can have reached the service.
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


class SyncTransport:
    """Threads may share it: one logs in while the others wait for the token."""

    def __init__(self, core: Core, http: httpx.Client | None) -> None:
        self._core = core
        self._http = http or httpx.Client(verify=_trust(core))
        self._login_lock = threading.Lock()

    def send(self, call: Call[AnswerT]) -> AnswerT:
        return self._drive(self._core.converse(call))

    def iterate(self, call: Call[Page[ItemT]]) -> Items[ItemT]:
        return Items(lambda query: self.send(_turn(call, query)))

    def close(self) -> None:
        self._http.close()

    def _drive(self, conversation: Conversation[AnswerT]) -> AnswerT:
        try:
            step = next(conversation)
            while True:
                try:
                    found = self._take(step)
                except PixConnectError as error:
                    step = conversation.throw(error)
                else:
                    step = conversation.send(found)
        except StopIteration as end:
            return end.value

    def _take(self, step: Step) -> Answer | str | None:
        match step:
            case Send():
                return self._exchange(step)
            case Wait():
                return time.sleep(step.seconds)
            case Token():
                with self._login_lock:
                    return self._drive(self._core.log_in(step.refused))

    def _exchange(self, step: Send) -> Answer:
        request = self._http.build_request(**_request_of(step))
        try:
            response = self._http.send(request, stream=True, follow_redirects=False)
            if not (step.is_streamed and response.is_success):
                try:
                    response.read()
                finally:
                    response.close()
        except httpx.HTTPError as error:
            raise _no_answer(step, error) from error
        return _answer_of(step, response)


class AsyncTransport:
    """Tasks of one event loop share it: one logs in while the others wait for the token."""

    def __init__(self, core: Core, http: httpx.AsyncClient | None) -> None:
        self._core = core
        self._http = http or httpx.AsyncClient(verify=_trust(core))
        self._login_lock = asyncio.Lock()

    async def send(self, call: Call[AnswerT]) -> AnswerT:
        return await self._drive(self._core.converse(call))

    def iterate(self, call: Call[Page[ItemT]]) -> AsyncItems[ItemT]:
        return AsyncItems(lambda query: self.send(_turn(call, query)))

    async def close(self) -> None:
        await self._http.aclose()

    async def _drive(self, conversation: Conversation[AnswerT]) -> AnswerT:
        try:
            step = next(conversation)
            while True:
                try:
                    found = await self._take(step)
                except PixConnectError as error:
                    step = conversation.throw(error)
                else:
                    step = conversation.send(found)
        except StopIteration as end:
            return end.value

    async def _take(self, step: Step) -> Answer | str | None:
        match step:
            case Send():
                return await self._exchange(step)
            case Wait():
                return await asyncio.sleep(step.seconds)
            case Token():
                async with self._login_lock:
                    return await self._drive(self._core.log_in(step.refused))

    async def _exchange(self, step: Send) -> Answer:
        request = self._http.build_request(**_request_of(step))
        try:
            response = await self._http.send(request, stream=True, follow_redirects=False)
            if not (step.is_streamed and response.is_success):
                try:
                    await response.aread()
                finally:
                    await response.aclose()
        except httpx.HTTPError as error:
            raise _no_answer(step, error) from error
        return _answer_of(step, response)


def _request_of(step: Send) -> dict[str, Any]:
    return dict(method=step.method, url=step.url, headers=step.headers, content=step.content, timeout=step.timeout_s)


def _answer_of(step: Send, response: httpx.Response) -> Answer:
    is_open = step.is_streamed and response.is_success
    return Answer(
        status=response.status_code,
        headers={name.lower(): value for name, value in response.headers.items()},
        content=b"" if is_open else response.content,
        stream=response if is_open else None,
    )


def _no_answer(step: Send, error: httpx.HTTPError) -> NoAnswer:
    # Some of its errors have no text.
    text = str(error) or type(error).__name__
    return NoAnswer(f"{step.method} {step.url}: {text}", may_have_happened=not isinstance(error, _NOT_SENT))


def _turn(call: Call[AnswerT], query: Mapping[str, str] | None) -> Call[AnswerT]:
    """The same list at another page."""
    if query is None:
        return call
    # A cursor and a page's number exclude each other.
    return replace(call, query={name: value for name, value in call.query.items() if name != "page"} | dict(query))


def _trust(core: Core) -> ssl.SSLContext | bool:
    # Certificates take 20 ms to load. Where nothing is encrypted none is trusted.
    return True if core.is_encrypted else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
