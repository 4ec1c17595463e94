"""Features' objects of a process, by type: a frame passes them on without naming any."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, cast

Part = TypeVar("Part")


class FeatureParts:
    __slots__ = ("_parts",)

    def __init__(self, parts: Mapping[type, object] | None = None) -> None:
        self._parts = dict(parts or {})

    def __getitem__(self, kind: type[Part]) -> Part:
        """The part of this type; ``KeyError`` if the process has none."""
        return cast("Part", self._parts[kind])

    def __or__(self, others: Mapping[type, object]) -> FeatureParts:
        """The same with some parts replaced or added."""
        return FeatureParts(self._parts | dict(others))
