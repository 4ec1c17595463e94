"""Sent Pix in the form of institutions with the central bank's API, which itself has none.

Also a send of an institution that names sends by its own codes, in its profile's words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct, field

from pixconnect.features.institutions.profiles.profile import SentTraits
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules import tax_id
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.holder import AccountType
from pixconnect.kernel.rules.money import format_reais
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer, TransferStatus
from pixconnect.kernel.tables import refund as refund_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.platform.base.clock import SAO_PAULO, format_milliseconds

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
    status = words.choose_word(transfer.status, transfer.outcome_code)
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
    """Show the end of a payment in one of three forms: ``payload``, ``bare`` or ``status``."""
    status = words.choose_word(transfer.status, transfer.outcome_code)
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
    """Write an instant as the institution does: Sao Paulo time, without an offset."""
    return instant.astimezone(SAO_PAULO).replace(tzinfo=None).isoformat(timespec="milliseconds")


def ended_at(transfer: Transfer) -> datetime | None:
    return None if transfer.status == "PROCESSING" else transfer.settled_at or transfer.modified_at


EnvioStatus = Literal["EM_PROCESSAMENTO", "REALIZADO", "NAO_REALIZADO"]
STATUSES: Final = dict[TransferStatus, EnvioStatus](
    (
        ("PROCESSING", "EM_PROCESSAMENTO"),
        ("CONFIRMED", "REALIZADO"),
        ("RETURNED", "REALIZADO"),
        ("ERROR", "NAO_REALIZADO"),
        ("CANCELLED", "NAO_REALIZADO"),
    )
)


class ErroDoEnvio(Struct, frozen=True, kw_only=True):
    """Por que um envio não foi realizado."""

    codigo: str
    origem: str
    motivo: str


class GnExtras(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """O que um aviso diz além do Pix."""

    id_envio: str
    erro: ErroDoEnvio | None = None


class EnvioAvisado(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """O fim de um envio, como é avisado."""

    end_to_end_id: str
    chave: str | None
    tipo: Literal["SOLICITACAO"]
    status: EnvioStatus
    valor: str
    horario: str | None
    payer_message: str | None = field(default=None, name="infoPagador")
    gn_extras: GnExtras


class DevolucaoRecebida(Struct, frozen=True, kw_only=True, rename="camel"):
    """O que voltou de um envio."""

    rtr_id: str
    valor: str
    horario: str


def show_sent_notice(transfer: Transfer) -> EnvioAvisado:
    is_done = STATUSES[transfer.status] == "REALIZADO"
    error = ErroDoEnvio(codigo=transfer.outcome_code or "", origem="SPI", motivo=transfer.outcome_reason or "")
    return EnvioAvisado(
        end_to_end_id=transfer.shown_id,
        chave=transfer.own_key,
        tipo="SOLICITACAO",
        status=STATUSES[transfer.status],
        valor=format_reais(transfer.amount_cents),
        horario=format_milliseconds(transfer.settled_at) if transfer.settled_at is not None else None,
        payer_message=transfer.payer_message,
        gn_extras=GnExtras(id_envio=transfer.external_id or "", erro=None if is_done else error),
    )


async def find_sent(
    context: Context, caller: Caller, *, id_envio: str = "", end_to_end_id: str = ""
) -> Transfer | None:
    """Find a transfer that the caller sent, by one of its two names."""
    pool, holder_id = context.pool, caller.holder_id
    if id_envio:
        found = await transfer_store.find_by_external_id(pool, holder_id, id_envio)
    else:
        found = await transfer_store.find_by_end_to_end_id(pool, holder_id, end_to_end_id)
    return found if found is not None and found.direction == "OUT" else None


async def find_returns(context: Context, sent: Sequence[Transfer]) -> Mapping[int, list[DevolucaoRecebida]]:
    """Find the returns of each, by the transfer's id."""
    found = await refund_store.find_of_transfers(context.pool, [(each.id, each.holder_id) for each in sent])
    return {
        transfer_id: [_show_return(refund) for refund in refunds if refund.status == "RETURNED"]
        for (transfer_id, _), refunds in found.items()
    }


def _show_return(refund: Refund) -> DevolucaoRecebida:
    return DevolucaoRecebida(
        rtr_id=refund.shown_id,
        valor=format_reais(refund.amount_cents),
        horario=format_milliseconds(refund.settled_at or refund.created_at),
    )
