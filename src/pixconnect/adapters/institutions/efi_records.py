"""What Efi is asked to send, and what it says of what it has sent, and of a code right before that is paid.

A static code says the same to everybody. What a dynamic one asks for stands at its location, where its payee may change it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from pixconnect.adapters.institutions import wire
from pixconnect.adapters.institutions.message import as_list, as_members
from pixconnect.domain.institutions.malformed_item import MalformedItem
from pixconnect.domain.institutions.rail_memory import OutgoingPix, SentPix
from pixconnect.domain.institutions.sent_return import SentReturn
from pixconnect.domain.money.br_code import parse_br_code
from pixconnect.domain.money.holder import UNKNOWN_PARTY, Party
from pixconnect.domain.money.tax_id import is_cpf

_NAME: Final = re.compile(r"[a-zA-Z0-9]{1,35}")
_ACCOUNT_TYPES: Final = dict(CHECKING="cacc", SAVINGS="svgs")
_SENT: Final = dict[str, Literal["under_way", "settled", "refused"]](
    EM_PROCESSAMENTO="under_way", REALIZADO="settled", NAO_REALIZADO="refused"
)


def write_payee(pix: OutgoingPix) -> dict[str, object] | None:
    """The member ``favorecido``; ``None`` where it has no form for such an account."""
    payee = pix.payee
    if pix.is_by_key:
        # With the owner beside it, Efi refuses a key that is somebody else's.
        owner = {} if payee.tax_id == UNKNOWN_PARTY.tax_id else _write_owner(payee)
        return {"chave": payee.key, **owner}
    kind = _ACCOUNT_TYPES.get(payee.account_type)
    if kind is None:
        return None
    account = dict(codigoBanco=payee.ispb, agencia=payee.branch, conta=payee.account_number, tipoConta=kind)
    return {"contaBanco": {"nome": payee.name, **_write_owner(payee), **account}}


def _write_owner(payee: Party) -> dict[str, str]:
    return {"cpf" if is_cpf(payee.tax_id) else "cnpj": payee.tax_id}


def decode_sent(members: Mapping[str, object]) -> SentPix:
    """A Pix that was sent, as its PUT answers and as it is read; ``Malformed`` where anything of it cannot be relied on."""
    status = _SENT.get(wire.take_text(members, "status", 40))
    if status is None:
        raise wire.Malformed("status is a word that we do not know")
    instants = wire.take_members(members, "horario")
    payee = as_members(members.get("favorecido")) or {}
    owner = wire.find_first(payee, "identificacao", "contaBanco")
    # The documentation and the library have two names for it.
    name = "e2eId" if "e2eId" in members else "endToEndId"
    return SentPix(
        name=wire.take_text(members, "idEnvio", 35, form=_NAME),
        end_to_end_id=wire.take_end_to_end_id(members, name),
        amount_cents=wire.take_reais(members, "valor"),
        status=status,
        # It may lie a second before the request: theirs are not put in order.
        settled_at=wire.find_instant(instants, "liquidacao") if status == "settled" else None,
        payee=wire.find_whole_key(payee, "chave"),
        paid=wire.find_listed_payee(
            owner, name="nome", tax_id="cpf,cnpj", ispb="codigoBanco", branch="agencia", account_number="conta"
        ),
        returns=[each for each in read_returns(members) if isinstance(each, SentReturn)],
    )


def read_returns(row: object) -> Sequence[SentReturn | MalformedItem]:
    """What was returned of a Pix that was sent; what cannot be read of it, for people."""
    members = as_members(row) or {}
    listed = members.get("devolucoes")
    if listed is None:
        return ()
    found = list[SentReturn | MalformedItem]()
    for returned in as_list(listed) or (None,):
        try:
            found.append(_decode_return(wire.take_end_to_end_id(members, "endToEndId"), as_members(returned) or {}))
        except wire.Malformed as error:
            found.append(wire.keep_malformed({**members, "devolucoes": returned}, f"devolucoes: {error.reason}"))
    return found


def _decode_return(end_to_end_id: str, members: Mapping[str, object]) -> SentReturn:
    return_id = wire.find_return_id(members, "rtrId")
    if return_id is None:
        raise wire.Malformed("rtrId is not there")
    return SentReturn(
        end_to_end_id=end_to_end_id,
        return_id=return_id,
        amount_cents=wire.take_reais(members, "valor"),
        settled_at=wire.take_instant(members, "horario"),
    )


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
    amounts = wire.take_members(members, "valor")
    # The documentation has one, and the library the other.
    amount = "final" if "final" in amounts else "original"
    return ReadCode(
        key=wire.find_whole_key(members, "chave"),
        amount_cents=wire.take_reais(amounts, amount),
        txid=wire.take_text(members, "txid", 35),
        # A word that we do not know gives no leave to pay.
        is_payable=wire.take_text(members, "status", 40) == "ATIVA",
    )


def is_as_accepted(read: ReadCode, pix: OutgoingPix) -> bool:
    """Whether a code still asks for what it asked for when its transfer was accepted, and can be paid."""
    return read.is_payable and (read.key, read.amount_cents, read.txid) == (pix.payee.key, pix.amount_cents, pix.txid)
