"""What Inter is asked to send, and what it says of what it has sent, by its code and in its statement."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal
from uuid import UUID

import msgspec

from pixconnect.adapters.institutions import wire
from pixconnect.adapters.institutions.message import as_list, as_members
from pixconnect.adapters.institutions.payee_records import find_first, find_listed_payee
from pixconnect.domain.frame.money import format_reais
from pixconnect.domain.institutions.rail_memory import OutgoingPix, SentPix

_CODE: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_MESSAGE_MAX: Final = 140
_MARK_LENGTH: Final = 20
_REASON_MAX: Final = 500
_ACCOUNT_TYPES: Final = dict(
    CHECKING="CONTA_CORRENTE", SAVINGS="CONTA_POUPANCA", SALARY="CONTA_SALARIO", TRANSACTIONAL="CONTA_PAGAMENTO"
)
_Status = Literal["under_way", "settled", "refused"]
_ENDED: Final = dict[str, _Status](
    PAGO="settled",
    PIX_PAGO="settled",
    REPROVADO="refused",
    EXPIRADO="refused",
    CANCELADO="refused",
    FALHA="refused",
    CANCELADO_SEM_SALDO="refused",
    NAO_DEBITADO="refused",
    AGENDAMENTO_CANCELADO="refused",
)
"""Whatever other word there is, the Pix may still be paid, as one that a person has to approve."""

_TO_BE_APPROVED: Final = "AGUARDANDO_APROVACAO"


def write_key(name: str) -> str:
    """Our name as ``x-id-idempotente``, which must be a UUID.

    Example:
        >>> write_key("34c6ee378432224104a8e8b0d45d767b")
        '34c6ee37-8432-5241-84a8-e8b0d45d767b'
    """
    return str(UUID(hex=name, version=5))


def mark(name: str) -> str:
    """What ends the description of a Pix of ours: the statement shows it, and nothing else of our name."""
    return name[:_MARK_LENGTH]


def write_send(pix: OutgoingPix) -> dict[str, object] | None:
    """The body; ``None`` where it has no form for such an account."""
    payee = pix.payee
    if pix.is_by_key:
        receiver: dict[str, object] = dict(tipo="CHAVE", chave=payee.key)
    else:
        kind = _ACCOUNT_TYPES.get(payee.account_type)
        if kind is None:
            return None
        receiver = dict(tipo="DADOS_BANCARIOS", nome=payee.name, cpfCnpj=payee.tax_id, agencia=payee.branch)
        receiver |= dict(contaCorrente=payee.account_number, tipoConta=kind)
        receiver |= dict(instituicaoFinanceira={"ispb": payee.ispb})
    said = (pix.payer_message or "")[: _MESSAGE_MAX - _MARK_LENGTH - 1]
    # A number, of these very digits: it never is a float here.
    amount = msgspec.Raw(format_reais(pix.amount_cents).encode())
    return dict(valor=amount, descricao=f"{said} {mark(pix.name)}".lstrip(), destinatario=receiver)


def take_code(members: Mapping[str, object]) -> str:
    return wire.take_text(members, "codigoSolicitacao", 36, form=_CODE)


def decode_pix_of_code(name: str, code: str, members: Mapping[str, object]) -> SentPix:
    """A Pix that was sent, as it is answered by its code; ``Malformed`` where anything of it cannot be relied on."""
    told = wire.take_members(members, "transacaoPix")
    if take_code(told) != code:
        raise wire.Malformed("codigoSolicitacao is that of another Pix")
    word = wire.take_text(told, "status", 60)
    status: _Status = _ENDED.get(word, "under_way")
    has_name = status == "settled" or told.get("endToEnd") not in (None, "")
    return SentPix(
        name=name,
        code=code,
        # Without it its line of the statement would be another's: what is paid must name it.
        end_to_end_id=wire.take_end_to_end_id(told, "endToEnd") if has_name else None,
        amount_cents=wire.take_number_of_reais(told, "valor"),
        status=status,
        settled_at=wire.take_local_day(told, "dataHoraMovimento")[1] if status == "settled" else None,
        payee=wire.find_whole_key(told, "chave"),
        paid=find_listed_payee(
            find_first(told, "recebedor"),
            name="nome",
            tax_id="cpfCnpj",
            ispb="codIspb",
            branch="codAgencia",
            account_number="nroConta",
        ),
        reason=_find_reason(word, told) if status == "refused" else None,
        waits_for="approval" if word == _TO_BE_APPROVED else None,
    )


def find_marked(row: object, name: str) -> str | None:
    """The code of a line of the statement that is of our Pix of this name."""
    members = as_members(row) or {}
    details = as_members(members.get("detalhes")) or {}
    if members.get("tipoOperacao") != "D":
        return None
    text = wire.find_free_text(details, "descricaoPix", _REASON_MAX)
    return take_code(details) if text is not None and text.split()[-1:] == [mark(name)] else None


def _find_reason(word: str, told: Mapping[str, object]) -> str:
    rows = [as_members(row) or {} for row in as_list(told.get("erros")) or ()]
    said = (wire.find_free_text(row, name, 100) for row in rows for name in ("codigoErro", "descricaoErro"))
    return " ".join([word, *filter(None, said)])[:_REASON_MAX]
