"""Gives each face that has a listener its own sockets, with TLS as the institution has it."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pixconnect.api.faces.door import Answering, FaceDoor
from pixconnect.api.faces.exchange_log import FaceLog
from pixconnect.api.faces.frame import PREFIX
from pixconnect.config import Settings
from pixconnect.domain.frame.clock import Clock
from pixconnect.domain.profiles.chosen import HOMOLOGATION, parse_listeners
from pixconnect.domain.profiles.profile import NAMES, read_profile
from pixconnect.http.tls import Tls, make_context

LOGS: Final = "faces"
"""The folder of the home with what was asked at each face and answered."""
_LOG_MAX: Final = 1024 * 1024


def note_exchanges(settings: Settings, application: Answering, clock: Clock) -> Answering:
    """The application, which writes down what happens at faces where there are any."""
    if settings.mode != "sandbox":
        return application
    names = {face for name in NAMES for face in (name, name + HOMOLOGATION)}
    folder = settings.home_path / LOGS

    def write(face: str, line: bytes) -> None:
        # What is no face has no file; and a log that cannot be written stops nobody.
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
    # Nobody else's file, and no pipe that would be waited for.
    return os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)


def open_doors(
    settings: Settings, application: Answering, sockets: Sequence[socket.socket]
) -> tuple[list[socket.socket], list[Tls]]:
    """The sockets that are of no face, and what answers on the others."""
    faces = {listener.port: listener.face for listener in parse_listeners(settings.faces)}
    doors: list[Tls] = []
    for port, face in faces.items():
        profile = read_profile(face.removesuffix(HOMOLOGATION))
        context = make_context(*settings.tls_files, is_required=profile.client_certificate == "required")
        own = [each for each in sockets if each.getsockname()[1] == port]
        doors.append(Tls(context=context, sockets=own, app=FaceDoor(application, PREFIX + face)))
    return [each for each in sockets if each.getsockname()[1] not in faces], doors
