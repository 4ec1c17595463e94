"""What the thread and asyncio drivers share in their use of httpx2."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import httpx2

from pixconnect_client._call import Answer, Call
from pixconnect_client._core import Core, Send
from pixconnect_client.errors import NoAnswer
from pixconnect_client.feed import EventFeed

AnswerT = TypeVar("AnswerT")

# After these errors no request can have reached the service.
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)


def write_request(step: Send) -> dict[str, Any]:
    return dict(method=step.method, url=step.url, headers=step.headers, content=step.content, timeout=step.timeout_s)


def read_answer(step: Send, response: httpx2.Response) -> Answer:
    is_open = step.is_streamed and response.is_success
    return Answer(
        status=response.status_code,
        headers={name.lower(): value for name, value in response.headers.items()},
        content=b"" if is_open else response.content,
        stream=response if is_open else None,
    )


def describe_failure(step: Send, error: httpx2.HTTPError) -> NoAnswer:
    # Some errors of httpx2 have no text.
    text = str(error) or type(error).__name__
    return NoAnswer(f"{step.method} {step.url}: {text}", may_have_happened=not isinstance(error, _NOT_SENT))


def turn_page(call: Call[AnswerT], query: Mapping[str, str] | None) -> Call[AnswerT]:
    """The same list, at another page."""
    if query is None:
        return call
    # A cursor and a page number exclude each other.
    return replace(call, query={name: value for name, value in call.query.items() if name != "page"} | dict(query))


def go_on(call: Call[EventFeed], feed: EventFeed) -> Call[EventFeed]:
    """The request for the next page of the feed."""
    query = {name: value for name, value in call.query.items() if name != "start"}
    return replace(call, query=query | {"cursor": feed.cursor})


def choose_options(core: Core) -> dict[str, Any]:
    """Return the options of an httpx2 client for this service."""
    return dict(
        # Loading certificates takes 20 ms, and plain http needs none.
        verify=True if core.is_encrypted else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        # A proxy from the environment cannot reach loopback addresses. Certificates from the environment are used.
        trust_env=core.is_encrypted or not core.is_local,
    )
