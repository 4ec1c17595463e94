"""The asyncio driver. It imports httpx2, which takes as long as the rest of the package."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

import httpx2

from pixconnect_client._call import Answer, Call
from pixconnect_client._core import Conversation, Core, Send, Step, Token, Wait
from pixconnect_client._http import choose_options, describe_failure, go_on, read_answer, turn_page, write_request
from pixconnect_client.errors import PixConnectError
from pixconnect_client.feed import EventFeed, FeedEvent
from pixconnect_client.lists import AsyncItems, Page

AnswerT = TypeVar("AnswerT")
ItemT = TypeVar("ItemT")


class TaskTransport:
    """Tasks of one event loop share it: one logs in while the others wait for the token."""

    def __init__(self, core: Core, http: httpx2.AsyncClient | None) -> None:
        self._core = core
        self._http = http or httpx2.AsyncClient(**choose_options(core))
        self._login_lock = asyncio.Lock()

    async def send(self, call: Call[AnswerT]) -> AnswerT:
        return await self._drive(self._core.converse(call))

    def iterate(self, call: Call[Page[ItemT]]) -> AsyncItems[ItemT]:
        return AsyncItems(lambda query: self.send(turn_page(call, query)))

    async def follow(self, call: Call[EventFeed]) -> AsyncIterator[FeedEvent]:
        while True:
            feed = await self.send(call)
            for event in feed.events:
                yield event
            call = go_on(call, feed)

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
        request = self._http.build_request(**write_request(step))
        try:
            response = await self._http.send(request, stream=True, follow_redirects=False)
            if not (step.is_streamed and response.is_success):
                try:
                    await response.aread()
                finally:
                    await response.aclose()
        except httpx2.HTTPError as error:
            raise describe_failure(step, error) from error
        return read_answer(step, response)
