"""What a payer's institution reads at the location in a QR code of ours, before it pays."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import msgspec
from msgspec import Struct, field

from pixconnect.domain.frame import errors, money
from pixconnect.domain.frame.clock import format_milliseconds
from pixconnect.domain.money import charge as charge_rules
from pixconnect.domain.money.charge import Charge
from pixconnect.store.money import ledger as ledger_store
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.standard.due_payload import show_due_payload
from pixconnect.usecases.standard.payload_parts import COB_STATUSES, CobStatus, PayloadLine, PayloadPayer, show_debtor


class _Calendar(Struct, frozen=True, kw_only=True, rename="camel"):
    criacao: str
    apresentacao: str
    expiracao: int


class _Value(Struct, frozen=True, kw_only=True, rename="camel"):
    original: str
    modalidade_alteracao: int = 0


class _Payload(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Source: Pix API 2.9.0, CobPayload."""

    calendario: _Calendar
    devedor: PayloadPayer | None = None
    valor: _Value
    chave: str
    solicitacao_pagador: str | None = None
    lines: Sequence[PayloadLine] = field(default=(), name="infoAdicionais")
    txid: str
    revisao: int
    status: CobStatus


async def check_served(context: Context, path: str) -> Charge:
    """The charge at a path behind the locations' common prefix; raises ``NotFound`` where none is served."""
    return errors.found(await context.directory.find_served(path), "no charge is served here")


async def read_payload(context: Context, path: str, day: date | None = None) -> str:
    """A compact JWS over the official payload of a path behind the locations' common prefix.

    Args:
        day: On which a payer means to pay one with a due date; ``None`` is today.

    Raises:
        NotFound: No charge is served there.
        Violated: A charge with a due date cannot be paid on the day that is asked for.
    """
    charge = await check_served(context, path)
    contents, status = charge_rules.read_contents(charge), COB_STATUSES[charge.status]
    balance = await ledger_store.find_balance(context.pool, charge.holder_id)
    # While its holder may not be paid no payment is accepted: so payers need not try.
    if status == "ATIVA" and balance is not None and not balance.may_deposit:
        status = "REMOVIDA_PELO_PSP"
    now = context.clock.now()
    # Locations are public and served for ever, and codes get printed, posted and forwarded.
    tells_payer = status == "ATIVA" and charge_rules.tells_payer(charge, now)
    if charge.due_on is not None:
        own = await context.directory.read_account(charge.holder_id)
        due = show_due_payload(own, charge, contents, status, day, now, tells_payer=tells_payer)
        return await _sign(context, due)
    payload = _Payload(
        calendario=_Calendar(
            criacao=format_milliseconds(charge.created_at),
            # This process's clock may be a moment behind the one that dated the charge.
            apresentacao=format_milliseconds(max(now, charge.created_at)),
            expiracao=contents.lifetime_s,
        ),
        devedor=show_debtor(contents.payer) if contents.payer and tells_payer else None,
        valor=_Value(
            original=money.format_reais(contents.amount_cents),
            modalidade_alteracao=int(contents.may_change_amount or 0),
        ),
        chave=contents.key,
        solicitacao_pagador=contents.question if tells_payer else None,
        lines=[PayloadLine(nome=line.name, valor=line.value) for line in contents.lines if tells_payer] or (),
        txid=charge.txid,
        revisao=charge.revision or 0,
        status=status,
    )
    return await _sign(context, payload)


async def _sign(context: Context, payload: Struct) -> str:
    await context.signer.look_after_rest()
    return context.signer.sign_location(msgspec.json.encode(payload), context.policy.location_key_set_url)
