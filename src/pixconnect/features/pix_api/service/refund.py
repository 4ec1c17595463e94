"""Refunds as the central bank's API requests them: under the caller's own id, unique for one Pix.

They are refunds like all others, except for their name, and that one answer lists all violations.
"""

from __future__ import annotations

from typing import Final

from pixconnect.features.pix_api.rules import Violated, Violation
from pixconnect.features.pix_api.service import pix as standard_pix
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.refund import start_refund
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.money import format_reais
from pixconnect.kernel.rules.refund import Refund, RefundRequest, find_window
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import ledger as ledger_store
from pixconnect.kernel.tables import refund as refund_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import Clock
from pixconnect.platform.pool import Pool

ENTITY: Final = "devolucao"
_USED: Final = "já foi usado em outra devolução deste Pix, com outro conteúdo"
_USED_ELSEWHERE: Final = "já foi usado em outra devolução, com outro conteúdo"
_EXCEEDED: Final = "passa do que resta devolver deste Pix"
_CLOSED: Final = "o prazo para devolver este Pix terminou"
_BLOCKED: Final = "a conta está bloqueada para devoluções"
_NO_FUNDS: Final = "é maior que o saldo disponível"
_ABOVE_DAY: Final = "com as demais devoluções de hoje, é maior que o permitido para esta conta"
_IN_PART: Final = "este Pix só pode ser devolvido por inteiro"


async def read_refund(context: Context, caller: Caller, end_to_end_id: str, refund_id: str) -> standard_pix.Devolucao:
    original = await standard_pix.find_received(context, caller, end_to_end_id)
    refund = errors.found(await _find(context.pool, original, refund_id), "id: there is no such refund of this Pix")
    (told,) = await standard_pix.add_reasons(context.pool, [refund])
    return standard_pix.show_devolucao(refund_id, told)


async def request_refund(
    context: Context,
    caller: Caller,
    original: Transfer,
    refund_id: str,
    *,
    amount_cents: int,
    description: str | None,
    is_new: bool = False,
) -> standard_pix.Devolucao:
    """Accept a refund, or return the one of the same earlier request, in its present state.

    Args:
        is_new: Refuse an id that was used before, for anything.

    Raises:
        ExternalIdConflict: ``is_new``, and the id was used.
        ServiceUnavailable: Nothing was done.
        OutcomeUnknown: The commit was lost; repeat the request.
    """
    request = RefundRequest(
        end_to_end_id=original.end_to_end_id,
        amount_cents=amount_cents,
        external_id=standard_pix.external_id_of(original, refund_id),
        description=description,
    )
    find_made = _refuse_made if is_new else _find_made
    made = await find_made(context.pool, original, refund_id, request)
    if made is None:
        rows = await _judge(context.pool, context.clock, original, amount_cents)
        if rows:
            # The same request may have been accepted meanwhile, and be the refund that conflicts with this one.
            made = await find_made(context.pool, original, refund_id, request)
        if made is None:
            if rows:
                raise Violated(ENTITY, rows)
            made = await _start(context, caller, refund_id, request, is_new=is_new)
    return standard_pix.show_devolucao(refund_id, made)


async def _find(pool: Pool, original: Transfer, refund_id: str) -> Refund | None:
    refunds = await refund_store.find_of_transfers(pool, [(original.id, original.holder_id)])
    return dict(standard_pix.name_refunds(original, refunds.get((original.id, original.holder_id), ()))).get(refund_id)


async def _find_made(pool: Pool, original: Transfer, refund_id: str, request: RefundRequest) -> Refund | None:
    made = await _find(pool, original, refund_id)
    if made is None:
        return None
    # A refund of the contract's API may have this id as its external id, and be the same refund. One known only by its network
    # name was requested under another name, so it never answers this request.
    is_chosen = refund_id != made.return_id
    contents = (made.amount_cents, made.description or None, made.reason)
    if not is_chosen or contents != (request.amount_cents, request.description, request.reason):
        raise Violated(ENTITY, [_row("id", _USED, refund_id)])
    return made


async def _refuse_made(pool: Pool, original: Transfer, refund_id: str, request: RefundRequest) -> None:
    if await _find(pool, original, refund_id) is not None:
        raise errors.ExternalIdConflict("id: was used for a refund of this Pix")


async def _judge(pool: Pool, clock: Clock, original: Transfer, amount_cents: int) -> list[Violation]:
    """Find all present violations; decided again under the lock."""
    # The present state: another refund may have been made since we read it.
    now = await transfer_store.find_by_end_to_end_id(pool, original.holder_id, original.end_to_end_id) or original
    balance = await ledger_store.find_balance(pool, original.holder_id)
    rows: list[Violation] = []
    if balance is not None and not balance.may_withdraw:
        rows.append(_row(ENTITY, _BLOCKED))
    if amount_cents > now.amount_cents - now.returned_cents - now.returning_cents:
        rows.append(_row("devolucao.valor", _EXCEEDED, format_reais(amount_cents)))
    if now.settled_at is not None and clock.now() > now.settled_at + find_window(now.settled_at):
        rows.append(_row("e2eid", _CLOSED, now.shown_id))
    if balance is not None and balance.available_cents < amount_cents:
        rows.append(_row("devolucao.valor", _NO_FUNDS, format_reais(amount_cents)))
    return rows


async def _start(context: Context, caller: Caller, refund_id: str, request: RefundRequest, *, is_new: bool) -> Refund:
    sent = format_reais(request.amount_cents)
    try:
        return await start_refund(context, caller, request, is_new=is_new)
    except errors.ExternalIdConflict:
        if is_new:
            raise
        row = _row("id", _USED_ELSEWHERE, refund_id)
    except errors.HolderBlocked:
        row = _row(ENTITY, _BLOCKED)
    except errors.RefundExceedsOriginal:
        row = _row("devolucao.valor", _EXCEEDED, sent)
    except errors.RefundWindowClosed:
        row = _row("e2eid", _CLOSED, request.end_to_end_id)
    except errors.InsufficientFunds:
        row = _row("devolucao.valor", _NO_FUNDS, sent)
    except errors.AmountMismatch:
        row = _row("devolucao.valor", _IN_PART, sent)
    except errors.LimitExceeded:
        row = _row("devolucao.valor", _ABOVE_DAY, sent)
    raise Violated(ENTITY, [row])


def _row(name: str, reason: str, value: str | None = None) -> Violation:
    return Violation(property=name, reason=reason, value=value)
