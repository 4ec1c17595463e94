"""What a charge says, as the standard's door makes and changes it: its latest contents, and those of earlier revisions.

They are stored as JSON and read by later programs: a field may be added if it has a default, and none is renamed.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

LIFETIME_S: Final = 86_400
"""Where a charge of the standard names none. Source: Pix API 2.9.0, ``CobExpiracao``."""


class Payer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    tax_id: str


class Line(Struct, frozen=True, kw_only=True):
    """Something more that the payer is shown (``infoAdicionais``)."""

    name: str
    value: str


class ChargeContents(Struct, frozen=True, kw_only=True, omit_defaults=True):
    lifetime_s: int
    """From the charge's creation."""
    amount_cents: int
    """0 only if the payer chooses it."""
    may_change_amount: bool | None = None
    """Whether the payer may pay another amount; ``None`` means no, and that the caller did not say."""
    key: str
    """Normalised."""
    payer: Payer | None = None
    question: str | None = None
    """The question to the payer (``solicitacaoPagador``)."""
    lines: tuple[Line, ...] = ()
    maker_name: str | None = None
    """What its maker calls it, at institutions where nobody chooses a txid."""


class ContentsChange(Struct, frozen=True, kw_only=True):
    """The new values; a field that is ``None`` stays as it was."""

    lifetime_s: int | None = None
    amount_cents: int | None = None
    may_change_amount: bool | None = None
    key: str | None = None
    payer: Payer | None = None
    question: str | None = None
    lines: tuple[Line, ...] | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ChargeContents).decode


def encode_contents(contents: ChargeContents) -> str:
    return _encode(contents).decode()


def decode_contents(text: str) -> ChargeContents:
    return _decode(text)


def change_contents(contents: ChargeContents, change: ContentsChange) -> ChargeContents:
    said = {name: value for name in change.__struct_fields__ if (value := getattr(change, name)) is not None}
    return msgspec.structs.replace(contents, **said)


def say_the_same(one: ChargeContents, other: ChargeContents) -> bool:
    """Whether they differ only in saying what is understood."""
    return _complete(one) == _complete(other)


def _complete(contents: ChargeContents) -> ChargeContents:
    return msgspec.structs.replace(contents, may_change_amount=bool(contents.may_change_amount))
