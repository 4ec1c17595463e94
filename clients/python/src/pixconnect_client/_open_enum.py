"""Words of the service that may become more: one that this version does not know yet is kept as it came."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class OpenEnum(StrEnum):
    """Its members are strings and compare as such; an unknown word becomes a member that is not listed."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        member = str.__new__(cls, value)
        member._name_ = member._value_ = value
        return member
