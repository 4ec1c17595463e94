"""Requests and answers as octets: a request's head, and what may be read out of an answer."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final, cast
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from pixconnect.features.institutions.adapters.connection import InstitutionHost
from pixconnect.platform.http.client import ReceivedAnswer
from pixconnect.platform.json_members import count_elements
from pixconnect.platform.logging import current_trace
from pixconnect.platform.outgoing_text import cut_text

BODY_MAX: Final = 64 * 1024
LIST_MAX: Final = 4 * 1024 * 1024
ELEMENTS_MAX: Final = 400_000
"""Maximum of an answer larger than ``BODY_MAX``: a page of a thousand Pix has a tenth of that."""
FILE_MAX: Final = 32 * 1024 * 1024  # a day's file: two hundred octets for each of 150,000 lines

_MEDIA_TYPES: Final = ("application/json", "text/json")
_WAIT_MAX_S: Final = 86_400.0
# A surrogate pair, a single surrogate, or any other escape, so that an escaped backslash starts nothing else.
_ESCAPED: Final = re.compile(rb"\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|(\\u[dD][89a-fA-F][\da-fA-F]{2})|\\.")
_NO_CHARACTER: Final = rb"\ufffd"


def _read_number(text: str) -> float:
    # msgspec itself takes 16 us for a number near the largest or smallest one.
    if math.isinf(number := float(text)):
        raise ValueError(text)
    return number


_decode: Final = msgspec.json.Decoder(float_hook=_read_number).decode


class MalformedAnswer(Exception):  # noqa: N818  the institution's answer is, which is not our error
    """An inconclusive answer: it is no JSON, is too deep, or lacks a required member."""


class Content(Struct, frozen=True, kw_only=True):
    status: int
    value: object  # its JSON; ``None`` without a body
    wait_s: float | None  # from ``Retry-After``

    @property
    def is_success(self) -> bool:
        return 200 <= self.status <= 299

    @property
    def members(self) -> Mapping[str, object]:
        return as_members(self.value) or {}

    @property
    def name(self) -> str:
        """The name of its error: the last part of ``type``, ``nome``, or OAuth's ``error``."""
        for member in ("type", "nome", "error"):
            value = self.members.get(member)
            if isinstance(value, str):
                return value.rpartition("/")[2][:100]
        return ""

    @property
    def text(self) -> str:
        """Its error's text for people; from an unknown host, so only a short part."""
        for member in ("detail", "mensagem", "error_description", "title", "error"):
            value = self.members.get(member)
            if isinstance(value, str) and value:
                return cut_text("".join(each if each.isprintable() else " " for each in value))
        return ""

    @property
    def violated(self) -> Sequence[str]:
        """The request's members that its violations name; an empty text for a violation that names none."""
        rows = as_list(self.members.get("violacoes")) or ()
        return [str((as_members(row) or {}).get("propriedade", "")) for row in rows]


def as_members(value: object) -> Mapping[str, object] | None:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else None


def as_list(value: object) -> Sequence[object] | None:
    return cast("Sequence[object]", value) if isinstance(value, list) else None


def write_request(
    host: InstitutionHost, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes | None
) -> bytes:
    """Write a request's octets. Values are escaped or refused, so that none can start another line.

    Raises:
        ValueError: A header's value is invalid; it is not shown, as it may be secret.
    """
    target = host.prefix + quote(path, safe="/-._~") + (f"?{urlencode(query, quote_via=quote)}" if query else "")
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host.authority}", "Accept-Encoding: identity"]
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            raise ValueError(f"{name}: cannot be a header's value")
        lines.append(f"{name}: {value}")
    if (traceparent := current_trace.get()) is not None:
        lines.append(f"traceparent: {traceparent}")
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("ascii") + (body or b"")


def read_answer(answer: ReceivedAnswer, now: datetime) -> Content:
    """Parse an answer's JSON; raises ``MalformedAnswer``."""
    wait_s = read_wait(answer, now)
    if not answer.body.strip():
        return Content(status=answer.status_code, value=None, wait_s=wait_s)
    if answer.headers.get("content-encoding", "identity").lower() != "identity":
        raise MalformedAnswer("the answer is compressed, which was not requested")
    media_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in _MEDIA_TYPES and not (media_type.startswith("application/") and media_type.endswith("+json")):
        raise MalformedAnswer(f"the answer is {cut_text(media_type, 60) or 'of no type'}, and no JSON")
    if len(answer.body) > BODY_MAX and count_elements(answer.body) > ELEMENTS_MAX:
        raise MalformedAnswer(f"the answer has more than {ELEMENTS_MAX} members and elements")
    try:
        try:
            value = _decode(answer.body)
        except msgspec.DecodeError:
            # Cutting a text between surrogates leaves one half, which must not make a list unreadable.
            whole = _ESCAPED.sub(lambda found: found[0] if found[1] is None else _NO_CHARACTER, answer.body)
            value = _decode(whole)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise MalformedAnswer("the answer claims to be JSON, and is not") from None
    return Content(status=answer.status_code, value=value, wait_s=wait_s)


def read_wait(answer: ReceivedAnswer, now: datetime) -> float | None:
    """Read the requested wait in seconds, if readable."""
    text = answer.headers.get("retry-after")
    if text is None:
        return None
    if text.isascii() and text.isdecimal():
        return min(float(text[:9]), _WAIT_MAX_S)
    try:
        until = parsedate_to_datetime(text)
        return min(max(0.0, (until - now).total_seconds()), _WAIT_MAX_S)
    except (ValueError, TypeError, OverflowError):
        return None
