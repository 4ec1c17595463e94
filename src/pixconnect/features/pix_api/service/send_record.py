"""Sent Pix in the form of institutions with the central bank's API, which itself has none.

Also a send of an institution that names sends by its own codes, in its profile's words.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Literal

from pixconnect.features.institutions.profiles.profile import SentTraits
from pixconnect.features.pix_api.rules import Shown, without_none
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules import tax_id
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.holder import AccountType
from pixconnect.kernel.rules.money import format_reais
from pixconnect.kernel.rules.transfer import Transfer, TransferStatus
from pixconnect.kernel.tables import refund as refund_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.platform.base.clock import SAO_PAULO, format_milliseconds

ACCOUNT_KINDS: Final = dict[str, AccountType](
    CONTA_CORRENTE="CHECKING", CONTA_POUPANCA="SAVINGS", CONTA_SALARIO="SALARY", CONTA_PAGAMENTO="TRANSACTIONAL"
)


def show_ended(transfer: Transfer, words: SentTraits) -> Shown:
    status = words.choose_word(transfer.status, transfer.outcome_code)
    return without_none(
        {
            "codigoSolicitacao": transfer.external_id or "",
            "chave": transfer.counterparty.key,
            "dataHoraMovimento": write_local(ended_at(transfer) or transfer.modified_at),
            "dataHoraSolicitacao": write_local(transfer.created_at),
            "descricaoPagamento": transfer.payer_message,
            "endToEnd": transfer.shown_id,
            "instituicaoDestinatario": transfer.counterparty.ispb,
            "recebedor": show_payee(transfer),
            "erros": show_errors(transfer),
            "status": words.callback_statuses.get(status) or words.callback_statuses["other"],
            "tipoMovimentacao": "PAGAMENTO",
            "valor": format_reais(transfer.amount_cents),
        }
    )


def show_outcome(transfer: Transfer, words: SentTraits, form: str) -> object:
    """Show the end of a payment in one of three forms: ``payload``, ``bare`` or ``status``."""
    status = words.choose_word(transfer.status, transfer.outcome_code)
    is_failed = transfer.status in ("ERROR", "CANCELLED")
    record = {
        "id": transfer.shown_id,
        "status" if form == "status" else "estado": words.callback_statuses.get(status) or words.callback_statuses["other"],
        "valor": format_reais(transfer.amount_cents),
        **({"detalheRejeicao": transfer.outcome_reason or transfer.outcome_code} if is_failed else {}),
    }
    return {"payload": record} if form == "payload" else record


def show_payee(transfer: Transfer) -> Shown:
    payee = transfer.counterparty
    is_person = tax_id.is_cpf(payee.tax_id)
    shown = {"nome": payee.name, "cpfCnpj": tax_id.mask_cpf(payee.tax_id) if is_person else payee.tax_id}
    if transfer.initiation_type != "MANUAL":
        return shown
    return shown | {
        "codIspb": payee.ispb,
        "codAgencia": payee.branch,
        "nroConta": payee.account_number,
        "tipoConta": next(word for word, kind in ACCOUNT_KINDS.items() if kind == payee.account_type),
    }


def show_errors(transfer: Transfer) -> Sequence[Shown]:
    if transfer.status not in ("ERROR", "CANCELLED"):
        return ()
    return ({"codigoErro": transfer.outcome_code or "", "descricaoErro": transfer.outcome_reason or ""},)


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


def show_sent_notice(transfer: Transfer) -> Shown:
    """Show the end of a send as a key's webhook announces it."""
    status = STATUSES[transfer.status]
    extras: dict[str, object] = {"idEnvio": transfer.external_id or ""}
    if status != "REALIZADO":
        code, reason = transfer.outcome_code or "", transfer.outcome_reason or ""
        extras["erro"] = {"codigo": code, "origem": "SPI", "motivo": reason}
    shown = {
        "endToEndId": transfer.shown_id,
        "chave": transfer.own_key,
        "tipo": "SOLICITACAO",
        "status": status,
        "valor": format_reais(transfer.amount_cents),
        "horario": transfer.settled_at and format_milliseconds(transfer.settled_at),
    }
    message = {} if transfer.payer_message is None else {"infoPagador": transfer.payer_message}
    return {**shown, **message, "gnExtras": extras}


async def find_sent(context: Context, caller: Caller, *, id_envio: str = "", end_to_end_id: str = "") -> Transfer | None:
    """Find a transfer that the caller sent, by one of its two names."""
    pool, holder_id = context.pool, caller.holder_id
    if id_envio:
        found = await transfer_store.find_by_external_id(pool, holder_id, id_envio)
    else:
        found = await transfer_store.find_by_end_to_end_id(pool, holder_id, end_to_end_id)
    return found if found is not None and found.direction == "OUT" else None


async def find_returns(context: Context, sent: Sequence[Transfer]) -> Mapping[int, list[Shown]]:
    """Find the returns of each, by the transfer's id."""
    found = await refund_store.find_of_transfers(context.pool, [(each.id, each.holder_id) for each in sent])
    return {
        transfer_id: [
            {
                "rtrId": refund.shown_id,
                "valor": format_reais(refund.amount_cents),
                "horario": format_milliseconds(refund.settled_at or refund.created_at),
            }
            for refund in refunds
            if refund.status == "RETURNED"
        ]
        for (transfer_id, _), refunds in found.items()
    }
