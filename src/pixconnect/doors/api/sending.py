"""Turns a handler's answer, or a refusal, into status, headers and octets."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Final, cast

import msgspec

from pixconnect.doors.api import document as browser
from pixconnect.doors.api import envelope
from pixconnect.doors.api.document import Document
from pixconnect.doors.api.envelope import Headers, Listing
from pixconnect.doors.api.operation import Bare, Reply
from pixconnect.doors.api.paging import link_next
from pixconnect.platform import outgoing_text
from pixconnect.platform.http.exchange import RESPONSE_BODY, RESPONSE_START, Scope, Send

Written = tuple[int, bytes | AsyncIterator[bytes], Headers]  # status, body and headers

_NOT_KEPT: Final = (b"cache-control", b"no-store")  # answers contain money and tokens: no cache may keep them
_JSON_HEADERS: Final[Headers] = [
    (b"content-type", envelope.JSON.encode()),
    _NOT_KEPT,
    (b"content-security-policy", browser.POLICY),
]
_BODILESS: Final = frozenset({204, 304})  # statuses whose answers have no body, and so no length (RFC 9110, 8.6)


def write_answer(answer: object, scope: Scope, request_id: str, now: datetime, *, base_url: str) -> Written:
    """Write the response for a handler's answer; ``base_url`` is for the link to a list's next page."""
    if type(answer) is Document:
        return answer.status, answer.content, _document_headers(answer)
    if type(answer) is Bare:
        return 200, msgspec.json.encode(cast("Bare[object]", answer).record), _JSON_HEADERS
    if type(answer) is Reply:
        if answer.record is None:
            return answer.status, b"", [_NOT_KEPT, *answer.headers]
        return answer.status, msgspec.json.encode(answer.record), [*_JSON_HEADERS, *answer.headers]
    content = envelope.write_success(answer, request_id, now)
    if type(answer) is Listing and answer.next_after:
        link = link_next(base_url, scope["raw_path"], scope["query_string"], answer.next_after)
        return 200, content, [*_JSON_HEADERS, link]
    return 200, content, _JSON_HEADERS


def refusal_headers(refused: envelope.Refused) -> Headers:
    if refused.media_type == envelope.JSON:
        return [*_JSON_HEADERS, *refused.headers]
    return [(b"content-type", refused.media_type.encode()), *_JSON_HEADERS[1:], *refused.headers]


async def send_response(
    send: Send, scope: Scope, status: int, headers: Headers, content: bytes | AsyncIterator[bytes], delay_s: float = 0.0
) -> None:
    """Send a response, or let our server send one of octets after a delay."""
    if isinstance(content, bytes):
        if status not in _BODILESS:
            headers.append((b"content-length", b"%d" % len(content)))
        await send({"type": RESPONSE_START, "status": status, "headers": headers, "delay_s": delay_s})
        await send({"type": RESPONSE_BODY, "body": content})
        return
    await send({"type": RESPONSE_START, "status": status, "headers": headers})
    # The body of an answer to HEAD is not sent, so it is not made.
    if scope["method"] != "HEAD":
        async for part in content:
            await send({"type": RESPONSE_BODY, "body": part, "more_body": True})
    await send({"type": RESPONSE_BODY, "body": b""})


def _document_headers(document: Document) -> Headers:
    headers = [(b"content-type", document.media_type.encode()), (b"content-security-policy", document.policy)]
    if document.caching is None:
        headers.append(_NOT_KEPT)
    else:
        headers += document.caching
    if document.encoding:
        headers.append((b"content-encoding", document.encoding.encode()))
    if document.filename:
        headers.append((b"content-disposition", outgoing_text.in_attachment(document.filename).encode()))
    return headers
