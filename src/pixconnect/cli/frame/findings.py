"""What ``pixconnect doctor`` finds: each finding says what is so, and, where something is to be done, what."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Finding(Struct, frozen=True, kw_only=True):
    check: str
    status: Literal["ok", "note", "wrong"]
    text: str
    todo: str | None = None


def ok(check: str, text: str) -> Finding:
    return Finding(check=check, status="ok", text=text)


def note(check: str, text: str, todo: str) -> Finding:
    """Something that may be meant to be so."""
    return Finding(check=check, status="note", text=text, todo=todo)


def wrong(check: str, text: str, todo: str) -> Finding:
    return Finding(check=check, status="wrong", text=text, todo=todo)


def split(check: str, sentence: str) -> Finding:
    """What a failure's sentence says, which ends in what to do about it."""
    text, _, todo = sentence.rpartition(": ")
    return wrong(check, text, todo) if text else wrong(check, sentence, "look at the service's log")
