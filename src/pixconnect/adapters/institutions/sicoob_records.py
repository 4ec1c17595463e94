"""What Sicoob is asked to send in its two steps, and what it says of a payment."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal

from pixconnect.adapters.institutions.message import as_members
from pixconnect.adapters.institutions.wire import (
    Malformed,
    find_free_text,
    find_instant,
    find_text,
    take_end_to_end_id,
    take_number_of_reais,
    take_text,
)
from pixconnect.domain.frame.money import format_reais
from pixconnect.domain.institutions.first_step import NamedPix
from pixconnect.domain.institutions.rail_memory import OutgoingPix, SentPix
from pixconnect.domain.money import reject_code

_MESSAGE_MAX: Final = 140
_WORD: Final = re.compile(r"[A-Z0-9]{4}")
_KEY_MAX: Final = 77
_NAME_MAX: Final = 200
_REASON_MAX: Final = 500
_Status = Literal["under_way", "settled", "refused"]
_ENDED: Final = dict[str, _Status](FINALIZADO="settled", REJEITADO="refused")
"""Whatever other word there is, the payment may still be made."""
NOT_DONE: Final = "NAO_REALIZADO"
"""Named and not confirmed, or ended without effect: no source says which, so it ends nothing."""


def write_confirmation(pix: OutgoingPix) -> dict[str, object]:
    """The body of the second step. A day would schedule it, so there is none; ``199`` would be 199 reais.

    Example:
        >>> from pixconnect.domain.money.holder import UNKNOWN_PARTY
        >>> pix = OutgoingPix(name="a", code="E1", amount_cents=199, payer_key=None, payee=UNKNOWN_PARTY, is_by_key=True)
        >>> write_confirmation(pix)
        {'endToEndId': 'E1', 'meioIniciacao': 'CHAVE', 'valor': '1,99'}
    """
    said = {"descricao": pix.payer_message[:_MESSAGE_MAX]} if pix.payer_message else {}
    amount = format_reais(pix.amount_cents).replace(".", ",")
    return dict(endToEndId=pix.code, meioIniciacao="CHAVE", valor=amount, **said)


def decode_minted(members: Mapping[str, object], key: str) -> NamedPix:
    """What the first step answers; ``Malformed`` where anything of it cannot be relied on, or it speaks of another key."""
    told = find_text(members, "chave", _KEY_MAX)
    if told is not None and _plain(told) != _plain(key):
        raise Malformed("chave is another key than the one that we asked for")
    owner = as_members(members.get("proprietario")) or {}
    tax_id = "".join(each for each in find_text(owner, "identificador", 40) or "" if each.isalnum() or each == "*")
    return NamedPix(
        code=take_end_to_end_id(members, "endToEndId"),
        owner_tax_id=tax_id or None,
        owner_name=find_free_text(owner, "nome", _NAME_MAX),
    )


def decode_sent_pix(name: str, code: str, members: Mapping[str, object]) -> SentPix | None:
    """A payment, as its second step answers it and as it is asked about; nothing of one that was not made as far as told."""
    if take_text(members, "endToEndId", 32) != code:
        raise Malformed("endToEndId is that of another payment")
    # Its word has an accent, which not all write, and not all in the same characters.
    word = _fold(find_text(members, "estado", 60) or "")
    if word == NOT_DONE:
        return None
    status: _Status = _ENDED.get(word, "under_way")
    reason = find_free_text(members, "detalheRejeicao", _REASON_MAX) if status == "refused" else None
    return SentPix(
        name=name,
        code=code,
        end_to_end_id=code,
        amount_cents=_take_amount(members),
        status=status,
        settled_at=_find_instant(members) if status == "settled" else None,
        reason=reason,
        reject_code=next((word for word in _WORD.findall(reason or "") if word in reject_code.REASONS), None),
    )


def _take_amount(members: Mapping[str, object]) -> int:
    # A number, which is told with a point or a comma elsewhere.
    value = members.get("valor")
    told = value.replace(",", ".") if isinstance(value, str) else value
    return take_number_of_reais({"valor": told}, "valor")


def _find_instant(members: Mapping[str, object]) -> datetime | None:
    try:
        return find_instant(members, "horario")
    except Malformed:
        return None  # what is paid is paid, whenever it was


def _plain(key: str) -> str:
    return "".join(filter(str.isalnum, key)).casefold()


def _fold(word: str) -> str:
    """Capitals without accents.

    Example:
        >>> _fold("NÃO_REALIZADO"), _fold(unicodedata.normalize("NFD", "não realizado"))
        ('NAO_REALIZADO', 'NAO_REALIZADO')
    """
    plain = "".join(each for each in unicodedata.normalize("NFKD", word) if not unicodedata.combining(each))
    return plain.upper().replace(" ", "_")
