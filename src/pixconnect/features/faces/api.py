"""Faces in an API process of a sandbox: listeners, and a log file of each face's exchanges."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from pixconnect.doors.api.extension import Answering, ApiExtension, ApiExtensionRow, FindOperation
from pixconnect.features.faces.door import FaceDoor, FaceLog
from pixconnect.features.faces.frame import PREFIX
from pixconnect.features.institutions.profiles.profile import HOMOLOGATION, NAMES, parse_listeners, read_profile
from pixconnect.kernel.flows.context import Context
from pixconnect.platform.base.clock import Clock
from pixconnect.platform.config import Settings
from pixconnect.platform.http.tls import Tls, make_context

LOGS: Final = "faces"
"""The folder of the home with each face's log."""
_LOG_MAX: Final = 1024 * 1024


def note_exchanges(settings: Settings, application: Answering, clock: Clock) -> Answering:
    """Wrap the application, to log exchanges at any faces."""
    if settings.mode != "sandbox":
        return application
    names = {face for name in NAMES for face in (name, name + HOMOLOGATION)}
    folder = settings.home_path / LOGS

    def write(face: str, line: bytes) -> None:
        # Unknown faces have no file; and a failure to write the log stops no request.
        if face not in names:
            return
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = folder / f"{face}.jsonl"
            if file.exists() and file.stat().st_size > _LOG_MAX:
                file.replace(folder / f"{face}.before.jsonl")
            with os.fdopen(_open_own(file), "ab") as log:
                log.write(line + b"\n")

    return FaceLog(application, clock, write)


def _open_own(file: Path) -> int:
    # Not another user's file, and no pipe that would block.
    return os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)


def open_doors(
    settings: Settings, application: Answering, sockets: Sequence[socket.socket]
) -> tuple[list[socket.socket], list[Tls]]:
    """Separate the other sockets from the faces', which get a server of their own."""
    faces = {listener.port: listener.face for listener in parse_listeners(settings.faces)}
    doors: list[Tls] = []
    for port, face in faces.items():
        profile = read_profile(face.removesuffix(HOMOLOGATION))
        context = make_context(*settings.tls_files, is_required=profile.client_certificate == "required")
        own = [each for each in sockets if each.getsockname()[1] == port]
        doors.append(Tls(context=context, sockets=own, app=FaceDoor(application, PREFIX + face)))
    return [each for each in sockets if each.getsockname()[1] not in faces], doors


class _Faces(ApiExtension):
    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock

    def wrap(self, application: Answering, find_operation: FindOperation) -> Answering:
        return note_exchanges(self._settings, application, self._clock)

    def take_sockets(
        self, application: Answering, sockets: Sequence[socket.socket]
    ) -> tuple[list[socket.socket], list[Tls]]:
        return open_doors(self._settings, application, sockets)


@asynccontextmanager
async def _open(settings: Settings, context: Context) -> AsyncGenerator[ApiExtension]:
    yield _Faces(settings, context.clock)


EXTENSIONS: Final = (ApiExtensionRow(open=_open),)
