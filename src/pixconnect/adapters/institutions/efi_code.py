"""What Efi says of a dynamic code that it is asked to read, right before it is asked to pay it.

A static code says the same to everybody. What a dynamic one asks for stands at its location, where its payee may change it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from pixconnect.adapters.institutions.wire import find_whole_key, take_members, take_reais, take_text
from pixconnect.domain.institutions.rail_memory import OutgoingPix
from pixconnect.domain.money.br_code import parse_br_code


class ReadCode(Struct, frozen=True, kw_only=True):
    """What a dynamic code asks for."""

    key: str | None
    amount_cents: int
    txid: str
    is_payable: bool


def is_static(code: str) -> bool:
    return parse_br_code(code).kind == "static"


def decode_code(members: Mapping[str, object]) -> ReadCode:
    """What is told of a code; ``Malformed`` where anything of it cannot be relied on."""
    amounts = take_members(members, "valor")
    # The documentation has one, and the library the other.
    amount = "final" if "final" in amounts else "original"
    return ReadCode(
        key=find_whole_key(members, "chave"),
        amount_cents=take_reais(amounts, amount),
        txid=take_text(members, "txid", 35),
        # A word that we do not know gives no leave to pay.
        is_payable=take_text(members, "status", 40) == "ATIVA",
    )


def is_as_accepted(read: ReadCode, pix: OutgoingPix) -> bool:
    """Whether a code still asks for what it asked for when its transfer was accepted, and can be paid."""
    return read.is_payable and (read.key, read.amount_cents, read.txid) == (pix.payee.key, pix.amount_cents, pix.txid)
