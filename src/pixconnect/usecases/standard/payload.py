"""What a payer's institution reads at the location in a QR code of ours, before it pays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, Protocol

import msgspec
from msgspec import Struct, field

from pixconnect.domain.frame import errors, money
from pixconnect.domain.frame.clock import format_milliseconds
from pixconnect.domain.money import charge as charge_rules
from pixconnect.domain.money import tax_id
from pixconnect.domain.money.charge import ChargeStatus
from pixconnect.domain.money.charge_contents import Payer
from pixconnect.store.money import ledger as ledger_store
from pixconnect.usecases.frame.context import HasClock, HasDirectory, HasPolicy, HasPool, HasSigner

CobStatus = Literal["ATIVA", "CONCLUIDA", "REMOVIDA_PELO_USUARIO_RECEBEDOR", "REMOVIDA_PELO_PSP"]


class PayloadContext(HasPool, HasClock, HasPolicy, HasDirectory, HasSigner, Protocol): ...


class _Calendar(Struct, frozen=True, kw_only=True, rename="camel"):
    criacao: str
    apresentacao: str
    expiracao: int


class _Debtor(Struct, frozen=True, kw_only=True, omit_defaults=True):
    nome: str
    cpf: str | None = None
    cnpj: str | None = None


class _Value(Struct, frozen=True, kw_only=True, rename="camel"):
    original: str
    modalidade_alteracao: int = 0


class _Line(Struct, frozen=True, kw_only=True):
    nome: str
    valor: str


class _Payload(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Source: Pix API 2.9.0, CobPayload."""

    calendario: _Calendar
    devedor: _Debtor | None = None
    valor: _Value
    chave: str
    solicitacao_pagador: str | None = None
    lines: Sequence[_Line] = field(default=(), name="infoAdicionais")
    txid: str
    revisao: int
    status: CobStatus


# Expiry is no status there: payers compute it from the calendar.
COB_STATUSES: Final[Mapping[ChargeStatus, CobStatus]] = dict[ChargeStatus, CobStatus](
    (
        ("PENDING", "ATIVA"),
        ("EXPIRED", "ATIVA"),
        ("APPROVED", "CONCLUIDA"),
        ("RETURNED", "CONCLUIDA"),
        ("REMOVED_BY_RECEIVER", "REMOVIDA_PELO_USUARIO_RECEBEDOR"),
        ("REMOVED_BY_PSP", "REMOVIDA_PELO_PSP"),
    )
)


async def read_payload(context: PayloadContext, path: str) -> str:
    """A compact JWS over the official payload of a path behind the locations' common prefix."""
    charge = await context.directory.find_served(path)
    if charge is None:
        raise errors.NotFound("no charge is served here")
    contents, status = charge_rules.read_contents(charge), COB_STATUSES[charge.status]
    balance = await ledger_store.find_balance(context.pool, charge.holder_id)
    # While its holder may not be paid no payment is accepted: so payers need not try.
    if status == "ATIVA" and balance is not None and not balance.may_deposit:
        status = "REMOVIDA_PELO_PSP"
    now = context.clock.now()
    # Locations are public and served for ever, and codes get printed, posted and forwarded.
    tells_payer = status == "ATIVA" and charge_rules.tells_payer(charge, now)
    payload = _Payload(
        calendario=_Calendar(
            criacao=format_milliseconds(charge.created_at),
            # This process's clock may be a moment behind the one that dated the charge.
            apresentacao=format_milliseconds(max(now, charge.created_at)),
            expiracao=contents.lifetime_s,
        ),
        devedor=_show_debtor(contents.payer) if contents.payer and tells_payer else None,
        valor=_Value(
            original=money.format_reais(contents.amount_cents),
            modalidade_alteracao=int(contents.may_change_amount or 0),
        ),
        chave=contents.key,
        solicitacao_pagador=contents.question if tells_payer else None,
        lines=[_Line(nome=line.name, valor=line.value) for line in contents.lines if tells_payer] or (),
        txid=charge.txid,
        revisao=charge.revision or 0,
        status=status,
    )
    await context.signer.look_after_rest()
    return context.signer.sign_location(msgspec.json.encode(payload), context.policy.location_key_set_url)


def _show_debtor(payer: Payer) -> _Debtor:
    if tax_id.is_cpf(payer.tax_id):
        return _Debtor(nome=payer.name, cpf=payer.tax_id)
    return _Debtor(nome=payer.name, cnpj=payer.tax_id)
