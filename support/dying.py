"""A process that dies between two steps, as far as what it leaves behind goes."""

from typing import Any

import pytest


class KilledError(BaseException):
    """The process dies here."""


def die(place: object, name: str, monkeypatch: pytest.MonkeyPatch, *, before: bool = False, call: int = 1) -> None:
    """Die before or after a call of this function."""
    called, calls = getattr(place, name), 0

    async def called_last(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        result = None if before and calls == call else await called(*arguments, **options)
        if calls == call:
            raise KilledError
        return result

    monkeypatch.setattr(place, name, called_last)
