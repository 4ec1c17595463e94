"""Sent Pix as institutions that follow the central bank's API write them, which itself has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct, field

from pixconnect.domain.frame.clock import format_milliseconds
from pixconnect.domain.frame.money import format_reais
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.money.refund import Refund
from pixconnect.domain.money.transfer import Transfer, TransferStatus
from pixconnect.store.money import refund as refund_store
from pixconnect.store.money import transfer as transfer_store
from pixconnect.usecases.frame.context import Context

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
    """What the caller sent, by one of its two names."""
    pool, holder_id = context.pool, caller.holder_id
    if id_envio:
        found = await transfer_store.find_by_external_id(pool, holder_id, id_envio)
    else:
        found = await transfer_store.find_by_end_to_end_id(pool, holder_id, end_to_end_id)
    return found if found is not None and found.direction == "OUT" else None


async def find_returns(context: Context, sent: Sequence[Transfer]) -> Mapping[int, list[DevolucaoRecebida]]:
    """What came back of each, by the transfer's id."""
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
