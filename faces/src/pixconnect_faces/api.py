"""Faces in an API process of a sandbox: their operations and listeners, and a log file of each face's exchanges.

Paths below ``/`` of a listener are looked up below the face's prefix.

The log is for ``pixconnect face log``, without secrets. Bodies are parsed as JSON, since a pattern cannot match all spellings
of a secret. Unreadable bodies are not shown.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import Any, Final, cast
from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct

from pixconnect.doors.api.extension import Answering, ApiExtension, ApiExtensionRow, FindOperation
from pixconnect.doors.api.operation import AnyOperation, Door, RefusalForm
from pixconnect.features.institutions.profiles.profile import HOMOLOGATION, NAMES, parse_listeners, read_profile
from pixconnect.kernel.flows.context import Context
from pixconnect.platform.base.clock import Clock, format_milliseconds
from pixconnect.platform.config import Settings
from pixconnect.platform.http.exchange import RESPONSE_START, Message, Receive, Scope, Send, WholeAnswer
from pixconnect.platform.http.tls import Tls, make_context
from pixconnect_faces.efi import operations as efi
from pixconnect_faces.frame import (
    PREFIX,
    Face,
    FaceOperation,
    list_routes_of,
    list_rows_of_profile,
    open_faces,
)
from pixconnect_faces.inter import operations as inter
from pixconnect_faces.refusals import make_face_form
from pixconnect_faces.sicoob import operations as sicoob
from pixconnect_faces.woovi import operations as woovi

LOGS: Final = "faces"
"""The folder of the home with each face's log."""
_LOG_MAX: Final = 1024 * 1024
SHOWN_MAX: Final = 4096
"""Octets of each body after redaction."""
READ_MAX: Final = 262_144
"""Octets of a body that are parsed."""
_PREFIX: Final = PREFIX.encode()
_MASK: Final = "***"
_SECRETS: Final = frozenset(("access_token", "appid", "authorization", "client_secret", "hmacsecret", "refresh_token", "token"))
_URLS: Final = frozenset(("url", "webhookurl"))
_DECODED_MAX: Final = 4
"""How often a value may be percent-encoded."""

_WITH_OWN: Final[Mapping[str, Callable[[Face], Sequence[FaceOperation]]]] = {
    "efi": efi.list_rows,
    "inter": inter.list_inter_rows,
    "sicoob": sicoob.list_sicoob_rows,
    "woovi": woovi.list_woovi_rows,
}
TABLES: Final = {**_WITH_OWN, **{name: list_rows_of_profile for name in NAMES if name not in _WITH_OWN}}
"""By name; an institution with only a variant of the standard has a profile and no code."""


class _Faces(ApiExtension):
    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock

    def wrap(self, application: Answering, find_operation: FindOperation) -> Answering:
        return FaceLog(application, self._clock, self._write) if self._settings.mode == "sandbox" else application

    def _write(self, face: str, line: bytes) -> None:
        # Unknown faces have no file; and a failure to write the log stops no request.
        if face.removesuffix(HOMOLOGATION) not in NAMES:
            return
        folder = self._settings.home_path / LOGS
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = folder / f"{face}.jsonl"
            if file.exists() and file.stat().st_size > _LOG_MAX:
                file.replace(folder / f"{face}.before.jsonl")
            # Not another user's file, and no pipe that would block.
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
            with os.fdopen(os.open(file, flags, 0o600), "ab") as log:
                log.write(line + b"\n")

    def take_sockets(self, application: Answering, sockets: Sequence[socket.socket]) -> tuple[list[socket.socket], list[Tls]]:
        """Separate the other sockets from the faces', which get a server of their own."""
        faces = {listener.port: listener.face for listener in parse_listeners(self._settings.faces)}
        doors: list[Tls] = []
        for port, face in faces.items():
            profile = read_profile(face.removesuffix(HOMOLOGATION))
            context = make_context(*self._settings.tls_files, is_required=profile.client_certificate == "required")
            own = [each for each in sockets if each.getsockname()[1] == port]
            doors.append(Tls(context=context, sockets=own, app=FaceDoor(application, PREFIX + face)))
        return [each for each in sockets if each.getsockname()[1] not in faces], doors


@asynccontextmanager
async def _open(settings: Settings, context: Context) -> AsyncGenerator[ApiExtension]:
    yield _Faces(settings, context.clock)


EXTENSIONS: Final = (ApiExtensionRow(open=_open),)


class FaceDoor:
    def __init__(self, application: Answering, prefix: str) -> None:
        self._application = application
        self._prefix = prefix.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._application(self._below(scope), receive, send)

    def answer_at_once(self, scope: Scope) -> WholeAnswer | None:
        return self._application.answer_at_once(self._below(scope))

    def _below(self, scope: Scope) -> Scope:
        # Not every target begins with a slash: one is only an asterisk.
        return {**scope, "raw_path": self._prefix + b"/" + scope["raw_path"].removeprefix(b"/")}


def mask_body(octets: bytes | bytearray) -> str:
    """Redact the beginning of a body; show only its length if it is no JSON, or too long to be parsed."""
    if not octets:
        return ""
    if len(octets) > READ_MAX:
        return f"({READ_MAX} octets and more)"
    try:
        body = json.loads(octets.decode(), object_pairs_hook=_read_object)
    except (ValueError, RecursionError):
        return f"({len(octets)} octets that are no JSON)"
    masked = _mask(body)
    # When debugging, developers want the exact text.
    shown = bytes(octets) if masked == body else json.dumps(masked, ensure_ascii=False).encode("utf-8", "replace")
    return shown[:SHOWN_MAX].decode("utf-8", "replace")


def mask_query(raw: bytes) -> str:
    shown = list[str]()
    for part in raw.decode("latin-1").split("&"):
        name, found, value = part.partition("=")
        masked = _MASK if _fold(unquote(name)) in _SECRETS else _mask_encoded(value)
        shown.append(name + found + masked)
        if masked != value and "?" in value:
            # The URL was not encoded, so what follows may be its own.
            return "&".join([*shown, _MASK])
    return "&".join(shown)


def _read_object(members: Sequence[tuple[str, object]]) -> dict[str, object]:
    read = dict(members)
    if len(read) < len(members):
        # Of a repeated member only the last is read.
        raise ValueError("twice")
    return read


def _mask(value: object) -> object:
    if isinstance(value, dict):
        return {name: _mask_member(name, each) for name, each in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [_mask(each) for each in cast("list[object]", value)]
    return _mask_text(value) if isinstance(value, str) else value


def _mask_member(name: str, value: object) -> object:
    folded = _fold(name)
    if folded in _SECRETS:
        return _MASK
    if folded in _URLS and isinstance(value, str):
        return _mask_url(value)
    return _mask(value)


def _fold(name: str) -> str:
    return name.strip().lower()


def _mask_text(text: str) -> str:
    """Redact a text that may be a URL, such as a refused one in a message; sentences stay."""
    is_sentence = any(letter.isspace() for letter in text) and "=" not in text.partition("?")[2]
    return text if is_sentence and "://" not in text else _mask_url(text)


def _mask_url(text: str) -> str:
    """Remove user info and everything after the path from a URL, by which its receiver may know us."""
    end = min((position for mark in "?#" if (position := text.find(mark)) >= 0), default=len(text))
    before = text[:end]
    scheme, colon, rest = before.partition(":")
    # Without a colon it is an e-mail address.
    if "@" in rest:
        slashes = "//" if rest.startswith("//") else ""
        before = f"{scheme}{colon}{slashes}{_MASK}@{rest.rpartition('@')[2]}"
    return before + (text[end] + _MASK if end < len(text) else "")


def _mask_encoded(value: str) -> str:
    text = value
    for _ in range(_DECODED_MAX):
        text = unquote(text)
    masked = _mask_url(text)
    return value if masked == text else quote(masked, safe=":/?*@")


class FaceExchange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    at: str
    method: str
    path: str
    """Below the face's prefix, with its query."""
    asked: str = ""
    """The first octets of the body, redacted."""
    status: int
    answered: str = ""


class FaceLog:
    """The application, with each exchange at a face logged.

    Args:
        write: Receives the face's name and the line.
    """

    def __init__(self, application: Answering, clock: Clock, write: Callable[[str, bytes], None]) -> None:
        self._application = application
        self._clock = clock
        self._write = write

    def answer_at_once(self, scope: Scope) -> WholeAnswer | None:
        return self._application.answer_at_once(scope)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        # Most requests are of other APIs, and cost a check of their path alone.
        if scope["raw_path"].startswith(_PREFIX):
            return self._note(scope, receive, send)
        return self._application(scope, receive, send)

    async def _note(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked, answered, status = bytearray(), bytearray(), 0

        async def receive_noting() -> Message:
            message = await receive()
            _keep(asked, message)
            return message

        async def send_noting(message: Message) -> None:
            nonlocal status
            if message["type"] == RESPONSE_START:
                status = message["status"]
            else:
                _keep(answered, message)
            await send(message)

        try:
            await self._application(scope, receive_noting, send_noting)
        finally:
            face, path = split_path(scope["raw_path"])
            query: bytes = scope["query_string"]
            if path.endswith("token"):
                # Everything in it is secret, in unknown forms.
                asked, answered, query = bytearray(), bytearray(), b""
            exchange = FaceExchange(
                at=format_milliseconds(self._clock.now()),
                method=scope["method"],
                path=f"{path}?{mask_query(query)}" if query else path,
                asked=mask_body(asked),
                status=status,
                answered=mask_body(answered),
            )
            self._write(face, msgspec.json.encode(exchange))


def _keep(kept: bytearray, message: Message) -> None:
    # One more than the maximum shows that there was more.
    kept += message.get("body", b"")[: READ_MAX + 1 - len(kept)]


def split_path(raw_path: bytes) -> tuple[str, str]:
    """Split a path into the face's name and the rest; both are empty for any other path."""
    before, found, rest = raw_path.decode("latin-1").partition(PREFIX)
    if before or not found:
        return "", ""
    name, _, path = rest.partition("/")
    # As in the router: a plus may be sent percent-encoded.
    return name.replace("%2B", "+").replace("%2b", "+"), f"/{path}"


@cache
def _all_faces() -> Mapping[str, Face]:
    return {face.name: face for name in TABLES for face in open_faces(name)}


def list_face_routes() -> tuple[AnyOperation, ...]:
    return tuple(route for face in _all_faces().values() for route in list_routes_of(face, TABLES[face.profile.name](face)))


def find_face_form(raw_path: bytes) -> RefusalForm | None:
    """Find the form of refusals for unknown paths below a face; ``None`` for other paths."""
    name, path = split_path(raw_path)
    face = _all_faces().get(name)
    if face is None:
        return None
    groups = face.profile.errors.items()
    found = next((group for group, traits in groups if traits.below and path.startswith(traits.below)), "general")
    return make_face_form(face.profile, found)


DOORS: Final = (Door(list_routes=list_face_routes, find_form=find_face_form, only_in="sandbox"),)
