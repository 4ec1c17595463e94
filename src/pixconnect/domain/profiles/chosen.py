"""Which faces have a listener of their own, and what an operator chose where no source says what an institution answers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from pixconnect.domain.profiles.profile import NAMES, read_profile

HOMOLOGATION: Final = "+homologation"
DRAWN: Final = "drawn"
_PORT_MAX: Final = 65535


class FaceListener(Struct, frozen=True, kw_only=True):
    face: str
    """The institution's name, with ``+homologation`` where it is its own test environment's."""
    port: int
    """0 is a free one."""

    def __str__(self) -> str:
        return f"{self.face}:{self.port}"


def parse_listeners(text: str) -> tuple[FaceListener, ...]:
    """Read ``efi:8101,efi+homologation``; without a port it is the face's own.

    Raises:
        ValueError: In words that name what is wrong.
    """
    listeners = tuple(_parse_listener(part.strip()) for part in text.split(",") if part.strip())
    names = [listener.face for listener in listeners]
    if len(set(names)) < len(names):
        raise ValueError("names a face twice")
    return listeners


def _parse_listener(text: str) -> FaceListener:
    face, colon, port = text.partition(":")
    name = face.removesuffix(HOMOLOGATION)
    if name not in NAMES:
        raise ValueError(f"there is no face {name[:64]!r}; there are {', '.join(NAMES)}, each also with {HOMOLOGATION}")
    if colon and not (port.isdecimal() and port.isascii() and int(port[:9]) <= _PORT_MAX):
        raise ValueError(f"must be NAME:PORT, with a port from 0 to {_PORT_MAX}")
    ports = read_profile(name).ports
    usual = ports.homologation if face != name else ports.production
    return FaceListener(face=face, port=int(port) if colon else usual)


def parse_answers(text: str, seed: int) -> Mapping[str, str]:
    """Read ``efi.above_limit=invalid``; raises ``ValueError``.

    ``drawn`` draws, by the seed, an answer for each choice that is not named.
    """
    parts = [part for part in map(str.strip, text.split(",")) if part]
    answers = _draw_answers(seed) if DRAWN in parts else {}
    for part in parts:
        if part == DRAWN:
            continue
        name, _, answer = part.partition("=")
        face, _, choice = name.partition(".")
        found = read_profile(face).choices.get(choice) if face in NAMES else None
        if found is None:
            raise ValueError(f"{name[:64]!r} is no choice of a face: NAME.CHOICE=ANSWER")
        if answer not in found.answers:
            raise ValueError(f"{name} must be {' or '.join(found.answers)}")
        answers[name] = answer
    return answers


def _draw_answers(seed: int) -> dict[str, str]:
    drawn: dict[str, str] = {}
    for face in NAMES:
        for choice, found in read_profile(face).choices.items():
            name = f"{face}.{choice}"
            number = int.from_bytes(hashlib.blake2b(f"{seed}/{name}".encode()).digest())
            drawn[name] = found.answers[number % len(found.answers)]
    return drawn
