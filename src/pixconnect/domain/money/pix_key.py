"""Pix keys: what people give instead of an account.

A key is normalised before anything else sees it, so that it has one spelling in the database, in the directory and in
every answer. Case is folded only where all is ASCII: the Kelvin sign lowers to a plain ``k``, and a key that only looks
like another must not become it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.short_text import trim_pasted
from pixconnect.domain.money import tax_id
from pixconnect.domain.money.holder import KeyType

KEY_LENGTH_MAX: Final = 77

SENT_LENGTH_MAX: Final = 120
"""The limit for a key as people write it, with marks and blanks; we refuse longer texts unread."""

_CACHED_MAX: Final = 4096

_PHONE_MARKS: Final = str.maketrans("", "", " .-()")
_PHONE: Final = re.compile(r"\+[1-9][0-9]{1,14}")
# We do not check the UUID's version: the directory's own example has none.
_EVP: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_EMAIL: Final = re.compile(rf"[a-z0-9.!#$'*+/=?^_`{{|}}~-]+@{_LABEL}(?:\.{_LABEL})*")


class PixKey(Struct, frozen=True, kw_only=True):
    key: str
    """Normalised: no mask, e-mail and EVP in lower case, CNPJ in capitals."""
    key_type: KeyType


def parse_pix_key(text: str, key_type: KeyType | None = None) -> PixKey:
    """Normalise a key, without the blanks around it, and judge its form; an ``InvalidPixKey`` does not repeat the key.

    Args:
        key_type: ``None`` lets the form decide: EVP, then ``@``, then a leading ``+``, then CPF, then CNPJ.

    Source: DICT API 2.12.1, table of key types.
    """
    if len(text) > SENT_LENGTH_MAX:
        raise errors.InvalidPixKey(
            f"key: is longer than any Pix key: at most {KEY_LENGTH_MAX} characters without marks"
        )
    return _parse(trim_pasted(text), key_type)


def as_kept(text: str) -> str:
    """A key that people paste with its mask or in capitals, as keys are kept; any other text as it is."""
    try:
        return parse_pix_key(text).key
    except errors.InvalidPixKey:
        return text


@lru_cache(_CACHED_MAX)
def _parse(text: str, key_type: KeyType | None) -> PixKey:
    found = key_type or _type_of(text)
    key = _NORMALISE[found](text) if text.isascii() else None
    if key is None or len(key) > KEY_LENGTH_MAX:
        rule = "is neither EVP, EMAIL, PHONE, CPF nor CNPJ" if key_type is None else f"is no {found}"
        raise errors.InvalidPixKey(f"key: {rule}: {_RULES[found]}")
    return PixKey(key=key, key_type=found)


def _type_of(text: str) -> KeyType:
    if _EVP.fullmatch(text.lower()):
        return "EVP"
    if "@" in text:
        return "EMAIL"
    if text.startswith("+"):
        return "PHONE"
    # Both may be written without marks; 14 characters are never a CPF.
    return "CPF" if _normalise_cpf(text) else "CNPJ"


def _normalise_cpf(text: str) -> str | None:
    key = tax_id.unmask_tax_id(text)
    return key if tax_id.is_cpf(key) else None


def _normalise_cnpj(text: str) -> str | None:
    key = tax_id.unmask_tax_id(text)
    return key if tax_id.is_cnpj(key) else None


def _normalise_phone(text: str) -> str | None:
    key = text.translate(_PHONE_MARKS)
    return key if _PHONE.fullmatch(key) else None


def _normalise_email(text: str) -> str | None:
    key = text.lower()
    return key if _EMAIL.fullmatch(key) else None


def _normalise_evp(text: str) -> str | None:
    key = text.lower()
    return key if _EVP.fullmatch(key) else None


_NORMALISE: Final[Mapping[KeyType, Callable[[str], str | None]]] = {
    "CPF": _normalise_cpf,
    "CNPJ": _normalise_cnpj,
    "PHONE": _normalise_phone,
    "EMAIL": _normalise_email,
    "EVP": _normalise_evp,
}

_RULES: Final = dict[KeyType, str](
    (
        ("CPF", "11 digits with right check digits"),
        ("CNPJ", "14 characters with right check digits"),
        ("PHONE", "+ and 2 to 15 digits, the country's code first"),
        ("EMAIL", "an address such as ana@shop.example, of at most 77 characters"),
        ("EVP", "a UUID with its hyphens"),
    )
)
