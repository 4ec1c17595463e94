"""A send as an institution shows it that names sends by codes of its own, by its profile's words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct, field

from pixconnect.domain.frame.civil_time import SAO_PAULO
from pixconnect.domain.frame.money import format_reais
from pixconnect.domain.money import tax_id
from pixconnect.domain.money.holder import AccountType
from pixconnect.domain.money.transfer import Transfer
from pixconnect.domain.profiles.profile import SentTraits

ACCOUNT_KINDS: Final = dict[str, AccountType](
    CONTA_CORRENTE="CHECKING", CONTA_POUPANCA="SAVINGS", CONTA_SALARIO="SALARY", CONTA_PAGAMENTO="TRANSACTIONAL"
)


class Recebedor(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    nome: str
    tax_id: str = field(name="cpfCnpj")
    cod_ispb: str | None = None
    cod_agencia: str | None = None
    nro_conta: str | None = None
    tipo_conta: str | None = None


class ErroPagamento(Struct, frozen=True, kw_only=True, rename="camel"):
    codigo_erro: str
    descricao_erro: str


class EnvioTerminado(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """O fim de um envio, como é avisado."""

    codigo_solicitacao: str
    chave: str | None = None
    moved_at: str = field(name="dataHoraMovimento")
    asked_at: str = field(name="dataHoraSolicitacao")
    message: str | None = field(default=None, name="descricaoPagamento")
    end_to_end: str
    payee_ispb: str = field(name="instituicaoDestinatario")
    recebedor: Recebedor
    erros: Sequence[ErroPagamento]
    status: str
    kind: Literal["PAGAMENTO"] = field(name="tipoMovimentacao")
    valor: str


def show_ended(transfer: Transfer, words: SentTraits) -> EnvioTerminado:
    status = words.say(transfer.status, transfer.outcome_code)
    return EnvioTerminado(
        codigo_solicitacao=transfer.external_id or "",
        chave=transfer.counterparty.key,
        moved_at=write_local(ended_at(transfer) or transfer.modified_at),
        asked_at=write_local(transfer.created_at),
        message=transfer.payer_message,
        end_to_end=transfer.shown_id,
        payee_ispb=transfer.counterparty.ispb,
        recebedor=show_payee(transfer),
        erros=show_errors(transfer),
        status=words.told.get(status) or words.told["other"],
        kind="PAGAMENTO",
        valor=format_reais(transfer.amount_cents),
    )


def show_outcome(transfer: Transfer, words: SentTraits, form: str) -> object:
    """The end of a payment as it is told in one of three forms: ``payload``, ``bare`` or ``status``."""
    status = words.say(transfer.status, transfer.outcome_code)
    is_failed = transfer.status in ("ERROR", "CANCELLED")
    told = {
        "id": transfer.shown_id,
        "status" if form == "status" else "estado": words.told.get(status) or words.told["other"],
        "valor": format_reais(transfer.amount_cents),
        **({"detalheRejeicao": transfer.outcome_reason or transfer.outcome_code} if is_failed else {}),
    }
    return {"payload": told} if form == "payload" else told


def show_payee(transfer: Transfer) -> Recebedor:
    payee = transfer.counterparty
    shown = tax_id.mask_cpf(payee.tax_id) if tax_id.is_cpf(payee.tax_id) else payee.tax_id
    if transfer.initiation_type != "MANUAL":
        return Recebedor(nome=payee.name, tax_id=shown)
    return Recebedor(
        nome=payee.name,
        tax_id=shown,
        cod_ispb=payee.ispb,
        cod_agencia=payee.branch,
        nro_conta=payee.account_number,
        tipo_conta=next(word for word, kind in ACCOUNT_KINDS.items() if kind == payee.account_type),
    )


def show_errors(transfer: Transfer) -> Sequence[ErroPagamento]:
    if transfer.status not in ("ERROR", "CANCELLED"):
        return ()
    return (ErroPagamento(codigo_erro=transfer.outcome_code or "", descricao_erro=transfer.outcome_reason or ""),)


def write_local(instant: datetime) -> str:
    """An instant as the institution writes it: the clock of Sao Paulo, without an offset."""
    return instant.astimezone(SAO_PAULO).replace(tzinfo=None).isoformat(timespec="milliseconds")


def ended_at(transfer: Transfer) -> datetime | None:
    return None if transfer.status == "PROCESSING" else transfer.settled_at or transfer.modified_at
