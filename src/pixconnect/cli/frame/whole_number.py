"""Whole numbers as people type them: digits, perhaps behind a minus.

The parser of the words would also take 10.50 for 10 cents and 0x10 for 16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from cyclopts import CoercionError, Parameter, Token

NO_LIMIT: Final = "none"


def read_whole_number(_type: Any, tokens: Sequence[Token]) -> int:  # noqa: ANN401  as the parser calls it
    text = tokens[0].value
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        # `usage` says what it must be.
        raise CoercionError(token=tokens[0], target_type=int)
    return int(text)


def read_limit(type_: Any, tokens: Sequence[Token]) -> int | Literal["none"]:  # noqa: ANN401  as the parser calls it
    return NO_LIMIT if tokens[0].value == NO_LIMIT else read_whole_number(type_, tokens)


WHOLE_NUMBER: Final = Parameter(converter=read_whole_number)
