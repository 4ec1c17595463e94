"""The findings of ``pixconnect doctor``: each symptom states what is right or wrong, and the remedy."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Symptom(Struct, frozen=True, kw_only=True):
    check: str
    status: Literal["ok", "note", "wrong"]
    text: str
    todo: str | None = None


def ok(check: str, text: str) -> Symptom:
    return Symptom(check=check, status="ok", text=text)


def note(check: str, text: str, todo: str) -> Symptom:
    """Note a state that may be intended."""
    return Symptom(check=check, status="note", text=text, todo=todo)


def wrong(check: str, text: str, todo: str) -> Symptom:
    return Symptom(check=check, status="wrong", text=text, todo=todo)


def split(check: str, sentence: str) -> Symptom:
    """Split a failure's sentence, which ends with the advice."""
    text, _, todo = sentence.rpartition(": ")
    return wrong(check, text, todo) if text else wrong(check, sentence, "look at the service's log")
