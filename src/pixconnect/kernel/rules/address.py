"""Where a holder is, as charges with a due date show it; and the states of Brazil."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from pixconnect.platform.base import errors

STREET_LENGTH_MAX: Final = 200
"""As in the official Pix API 2.9.0 (``DadosComplementaresPessoa``)."""

STATE_CODES: Final[Mapping[str, str]] = dict(
    **dict(RO="11", AC="12", AM="13", RR="14", PA="15", AP="16", TO="17"),
    **dict(MA="21", PI="22", CE="23", RN="24", PB="25", PE="26", AL="27", SE="28", BA="29"),
    **dict(MG="31", ES="32", RJ="33", SP="35", PR="41", SC="42", RS="43"),
    **dict(MS="50", MT="51", GO="52", DF="53"),
)
"""The states by their letters, with the two digits that the codes of their municipalities begin with. Source: IBGE."""
_POSTAL_CODE: Final = re.compile(r"[0-9]{5}-?[0-9]{3}")
_MUNICIPALITY: Final = re.compile(r"[0-9]{7}")


class Address(Struct, frozen=True, kw_only=True):
    street: str
    city: str
    state: str
    postal_code: str
    """8 digits."""


def is_municipality(code: str) -> bool:
    """Whether a municipality may have this code: there are over five thousand, so only the state is checked."""
    return _MUNICIPALITY.fullmatch(code) is not None and code[:2] in STATE_CODES.values()


def read_postal_code(text: str) -> str:
    """A CEP without its mark."""
    if not _POSTAL_CODE.fullmatch(text):
        raise errors.BadRequest("postal_code: must be a CEP of 8 digits, such as 01310-100")
    return text.replace("-", "")


def check_state(text: str) -> None:
    if text not in STATE_CODES:
        raise errors.BadRequest("state: must be one of Brazil by its two letters, such as SP")
