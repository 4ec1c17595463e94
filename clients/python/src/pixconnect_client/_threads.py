"""The driver for threads. It imports httpx2, which takes as long as the rest of the package."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import TypeVar

import httpx2

from pixconnect_client._call import Answer, Call
from pixconnect_client._core import Conversation, Core, Send, Step, Token, Wait
from pixconnect_client._http import choose_options, describe_failure, go_on, read_answer, turn_page, write_request
from pixconnect_client.errors import PixConnectError
from pixconnect_client.feed import EventFeed, FeedEvent
from pixconnect_client.lists import Items, Page

AnswerT = TypeVar("AnswerT")
ItemT = TypeVar("ItemT")


class ThreadTransport:
    """Threads may share it: one logs in while the others wait for the token."""

    def __init__(self, core: Core, http: httpx2.Client | None) -> None:
        self._core = core
        self._http = http or httpx2.Client(**choose_options(core))
        self._login_lock = threading.Lock()

    def send(self, call: Call[AnswerT]) -> AnswerT:
        return self._drive(self._core.converse(call))

    def iterate(self, call: Call[Page[ItemT]]) -> Items[ItemT]:
        return Items(lambda query: self.send(turn_page(call, query)))

    def follow(self, call: Call[EventFeed]) -> Iterator[FeedEvent]:
        while True:
            feed = self.send(call)
            yield from feed.events
            call = go_on(call, feed)

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
        request = self._http.build_request(**write_request(step))
        try:
            response = self._http.send(request, stream=True, follow_redirects=False)
            if not (step.is_streamed and response.is_success):
                try:
                    response.read()
                finally:
                    response.close()
        except httpx2.HTTPError as error:
            raise describe_failure(step, error) from error
        return read_answer(step, response)
