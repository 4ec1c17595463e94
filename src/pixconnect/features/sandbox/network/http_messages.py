"""Requests and responses on plain ASGI, as far as the sandbox needs them."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from pixconnect.platform.http.exchange import RESPONSE_BODY, RESPONSE_START, Receive, Send

# A group of 256 orders is about 200 kB.
BODY_LENGTH_MAX: Final = 2 * 1024 * 1024

JSON: Final = b"application/json"


class SandboxAnswer(Struct, frozen=True):
    status: int = 204
    body: bytes = b""
    content_type: bytes = JSON


class Failure(Struct, frozen=True):
    """The body of an answer with status 4xx or 5xx."""

    error: str
    """``invalid``, ``unknown``, ``unavailable``, ``unauthorized`` or ``internal``."""
    message: str


class BodyTooLargeError(Exception):
    """The request's body is over ``BODY_LENGTH_MAX``."""


def failure(status: int, error: str, message: str) -> SandboxAnswer:
    return SandboxAnswer(status, msgspec.json.encode(Failure(error, message)))


async def read_body(receive: Receive) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body", False):
        message = await receive()
        body += message.get("body", b"")
        if len(body) > BODY_LENGTH_MAX:
            raise BodyTooLargeError
    return body


async def send_answer(send: Send, answer: SandboxAnswer) -> None:
    headers = [(b"content-length", str(len(answer.body)).encode())]
    if answer.body:
        headers.append((b"content-type", answer.content_type))
    await send({"type": RESPONSE_START, "status": answer.status, "headers": headers})
    await send({"type": RESPONSE_BODY, "body": answer.body})
