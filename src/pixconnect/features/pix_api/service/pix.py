"""A received Pix with its refunds, in the central bank's form: one record for answers and for webhooks.

It covers every settled incoming transfer: by key, by code or by account, from outside or by book. Refused or unsettled payments
are no Pix in that API.

Refunds have the caller's own id, unique for one Pix. They are refunds like all others, except for their name, and that one
answer lists all violations.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field, structs

from pixconnect.features.due_charges.rules.day_amount import PaidAmount
from pixconnect.features.due_charges.service import find_paid_amounts
from pixconnect.features.pix_api import tables as pix_store
from pixconnect.features.pix_api.rules import SEARCHED_MAX, ReceivedSearch
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.refund import start_refund
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.listing import Page, Span
from pixconnect.kernel.rules.money import format_reais
from pixconnect.kernel.rules.rail import date_settled
from pixconnect.kernel.rules.refund import REFUND_REASONS, Refund, RefundReason, RefundRequest, RefundStatus, find_window
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import ledger as ledger_store
from pixconnect.kernel.tables import refund as refund_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import Clock, format_milliseconds
from pixconnect.platform.base.errors import Violated, Violation
from pixconnect.platform.pool import Connection, Pool

DevolucaoStatus = Literal["EM_PROCESSAMENTO", "DEVOLVIDO", "NAO_REALIZADO"]
Natureza = Literal["ORIGINAL", "RETIRADA", "MED_OPERACIONAL", "MED_FRAUDE"]

_MOTIVO_LENGTH_MAX: Final = 140
_SETTLED_WITHIN: Final = timedelta(minutes=10)
NAME: Final = re.compile(r"[a-zA-Z0-9]{1,35}")  # the form of a txid, and of a refund's id
_STATUSES: Final = dict[RefundStatus, DevolucaoStatus](
    (("PROCESSING", "EM_PROCESSAMENTO"), ("RETURNED", "DEVOLVIDO"), ("ERROR", "NAO_REALIZADO"))
)
_NATURES: Final = dict[RefundReason, Natureza](
    (("MD06", "ORIGINAL"), ("SL02", "ORIGINAL"), ("BE08", "MED_OPERACIONAL"), ("FR01", "MED_FRAUDE"))
)


Reais = Annotated[str, Meta(pattern=r"^[0-9]{1,10}\.[0-9]{2}$", examples=["123.45"])]
Instante = Annotated[str, Meta(extra_json_schema=dict(format="date-time"), examples=["2026-11-21T12:00:00.000Z"])]


class Horario(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Quando uma devolução foi pedida e liquidada."""

    solicitacao: Instante
    """Quando foi pedida."""
    liquidacao: Instante | None = None
    """Quando o dinheiro voltou ao pagador."""


class Devolucao(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Um Pix recebido que volta ao pagador, todo ou em parte."""

    id: Annotated[str, Meta(pattern="^[a-zA-Z0-9]{1,35}$")]
    """O identificador dado por quem a pediu."""
    rtr_id: Annotated[str, Meta(pattern="^[a-zA-Z0-9]{32}$")]
    """O identificador na rede."""
    valor: Reais
    """Em reais, com dois decimais."""
    natureza: Natureza
    """Por que volta."""
    descricao: str | None = None
    """Para o pagador ler."""
    horario: Horario
    """Quando."""
    status: DevolucaoStatus
    """Se já voltou."""
    motivo: Annotated[str, Meta(max_length=_MOTIVO_LENGTH_MAX)] | None = None
    """Por que não voltou."""


class Componente(Struct, frozen=True, kw_only=True):
    """Uma parte do valor de um Pix."""

    valor: Reais
    """Em reais, com dois decimais."""


class ComponentesValor(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """De que partes o valor de um Pix se compõe; as que são zero faltam."""

    original: Componente
    """O valor da cobrança; de uma de valor livre, o que foi pago."""
    multa: Componente | None = None
    """De uma cobrança com vencimento: a multa."""
    juros: Componente | None = None
    """De uma cobrança com vencimento: os juros."""
    abatimento: Componente | None = None
    """De uma cobrança com vencimento: o que se abate em qualquer dia."""
    desconto: Componente | None = None
    """De uma cobrança com vencimento: o que se desconta de quem paga antes."""


class Pix(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Um Pix recebido e liquidado."""

    end_to_end_id: Annotated[str, Meta(pattern="^[a-zA-Z0-9]{32}$")]
    """O identificador na rede."""
    txid: str | None = None
    """A cobrança ou o código que foi pago; ausente se não há."""
    valor: Reais
    """Em reais, com dois decimais."""
    componentes_valor: ComponentesValor | None = None
    """Presente se uma cobrança foi paga."""
    chave: str | None = None
    """A chave a que foi pago; ausente se foi pago por conta."""
    horario: Instante
    """Quando foi liquidado."""
    payer_message: str | None = field(default=None, name="infoPagador")
    """O que o pagador escreveu."""
    devolucoes: Sequence[Devolucao] | None = None
    """As devoluções, na ordem em que foram pedidas; ausente se não há."""


async def read_pix(context: Context, caller: Caller, end_to_end_id: str) -> Pix:
    transfer = await find_received(context, caller, end_to_end_id)
    return (await show_all(context.pool, [transfer]))[transfer.id]


async def list_pix(context: Context, caller: Caller, search: ReceivedSearch, span: Span) -> Page[Pix]:
    """One page of the Pix that the caller received, newest first."""
    pool, holder_id = context.pool, caller.holder_id
    # A settlement gets its date inside its transaction, and none takes as long as this.
    last_hour = (context.clock.now() - _SETTLED_WITHIN).replace(minute=0, second=0, microsecond=0)
    await pix_store.count_hours(pool, holder_id, last_hour)
    if search.txid is None and not search.is_filtered:
        page = await pix_store.read_received_page(pool, holder_id, span)
    else:
        if search.txid is None and (count := await pix_store.count_received(pool, holder_id, span)) > SEARCHED_MAX:
            reason = f"com estes filtros o intervalo pode ter {SEARCHED_MAX} Pix, e tem {count}: escolha um menor"
            raise Violated("pix", [Violation(property="inicio", reason=reason)])
        page = await pix_store.read_searched_page(pool, holder_id, search, span)
    shown = await show_all(pool, page.items)
    return page.with_items([shown[transfer.id] for transfer in page.items])


async def find_received(context: Context, caller: Caller, end_to_end_id: str) -> Transfer:
    """The settled incoming transfer behind a Pix; raises ``NotFound``."""
    transfer = await transfer_store.find_by_end_to_end_id(context.pool, caller.holder_id, end_to_end_id)
    if transfer is None or transfer.direction != "IN" or transfer.settled_at is None:
        raise errors.NotFound("e2eid: there is no such Pix")
    return transfer


async def list_refunds_of_pix(pool: Pool, received: Transfer) -> Sequence[Refund]:
    """List the refunds of a Pix, in the order of their requests."""
    found = await refund_store.find_of_transfers(pool, [(received.id, received.holder_id)])
    return found.get((received.id, received.holder_id), ())


async def add_reasons(pool: Connection | Pool, refunds: Sequence[Refund]) -> list[Refund]:
    """Add an infraction's reason to the refunds that it caused: lists of returns lack it."""
    # Only the institution takes: refunds by a holder need no query.
    taken = [(each.id, each.holder_id) for each in refunds if each.made_by == "institution"]
    links = await refund_store.find_links(pool, taken)
    return [
        structs.replace(each, reason=REFUND_REASONS[link.reason]) if (link := links.get((each.id, each.holder_id))) else each
        for each in refunds
    ]


async def show_all(pool: Connection | Pool, transfers: Iterable[Transfer]) -> dict[int, Pix]:
    """Show settled incoming transfers with their refunds, by the transfer's id, in the order given."""
    received = {(each.id, each.holder_id): each for each in transfers}
    found = await refund_store.find_of_transfers(pool, list(received))
    refunds = {name: await add_reasons(pool, each) for name, each in found.items()}
    of_charges = [name for name, each in received.items() if each.charge_id is not None]
    paid = await find_paid_amounts(pool, of_charges) if of_charges else {}
    return {each.id: show_pix(each, refunds.get(name, ()), paid.get(name)) for name, each in received.items()}


def show_pix(transfer: Transfer, refunds: Sequence[Refund], paid: PaidAmount | None) -> Pix:
    """Show a settled incoming transfer with its refunds, in the order of their requests, and the parts of its amount."""
    settled_at = date_settled(transfer.settled_at, transfer.network_settled_at)
    return Pix(
        end_to_end_id=transfer.shown_id,
        # A payer's institution may send anything here; the standard's record has a form for it.
        txid=transfer.txid if transfer.txid and NAME.fullmatch(transfer.txid) else None,
        valor=format_reais(transfer.amount_cents),
        componentes_valor=None if transfer.charge_id is None else _show_parts(transfer, paid),
        chave=transfer.own_key,
        horario=format_milliseconds(errors.require(settled_at, "only a settled transfer is a Pix")),
        payer_message=transfer.payer_message,
        devolucoes=[show_devolucao(refund_id, refund) for refund_id, refund in name_refunds(transfer, refunds)] or None,
    )


def _show_parts(transfer: Transfer, paid: PaidAmount | None) -> ComponentesValor:
    if paid is None:
        return ComponentesValor(original=Componente(valor=format_reais(transfer.amount_cents)))
    return ComponentesValor(
        original=Componente(valor=format_reais(paid.original_cents)),
        multa=_show_part(paid.fine_cents),
        juros=_show_part(paid.interest_cents),
        abatimento=_show_part(paid.rebate_cents),
        desconto=_show_part(paid.discount_cents),
    )


def _show_part(cents: int) -> Componente | None:
    return Componente(valor=format_reais(cents)) if cents else None


def name_refunds(transfer: Transfer, refunds: Sequence[Refund]) -> list[tuple[str, Refund]]:
    """Return the refunds of a Pix with their ids in the standard API, in the order given.

    One created there has the id of its path. One of our own API has its ``external_id`` if that fits and is no such id;
    otherwise our name of it on the network, which never changes and which no caller can have chosen. Its number is no name:
    callers number their refunds too.
    """
    prefix, given = external_id_of(transfer, ""), {refund.id: refund.external_id or "" for refund in refunds}
    own = {number: name.removeprefix(prefix) for number, name in given.items() if name.startswith(prefix)}
    own = {number: name for number, name in own.items() if NAME.fullmatch(name)}
    # Every name of the network counts as taken: a refund with another one's name would hide it.
    taken = {*own.values(), *(refund.return_id for refund in refunds)}
    free = {number: name for number, name in given.items() if NAME.fullmatch(name) and name not in taken}
    names = free | own
    return [(names.get(refund.id, refund.return_id), refund) for refund in refunds]


def external_id_of(transfer: Transfer, refund_id: str) -> str:
    """Return the ``external_id`` of a refund of the standard API: ids there are unique for one Pix only."""
    return f"{transfer.end_to_end_id}:{refund_id}"


def show_devolucao(refund_id: str, refund: Refund) -> Devolucao:
    settled_at = date_settled(refund.settled_at, refund.network_settled_at)
    returned_at = settled_at if refund.status == "RETURNED" else None
    return Devolucao(
        id=refund_id,
        rtr_id=refund.shown_id,
        valor=format_reais(refund.amount_cents),
        natureza=_NATURES[refund.reason],
        descricao=refund.description or None,
        horario=Horario(
            solicitacao=format_milliseconds(refund.created_at),
            liquidacao=None if returned_at is None else format_milliseconds(returned_at),
        ),
        status=_STATUSES[refund.status],
        motivo=f"{refund.outcome_code}: {refund.outcome_reason}"[:_MOTIVO_LENGTH_MAX] if refund.outcome_code else None,
    )


ENTITY: Final = "devolucao"
_USED: Final = "já foi usado em outra devolução deste Pix, com outro conteúdo"
_EXCEEDED: Final = "passa do que resta devolver deste Pix"
_CLOSED: Final = "o prazo para devolver este Pix terminou"
_BLOCKED: Final = "a conta está bloqueada para devoluções"
_NO_FUNDS: Final = "é maior que o saldo disponível"
_REFUSED: Final[Mapping[type[errors.PixConnectError], tuple[str, str]]] = {
    errors.ExternalIdConflict: ("id", "já foi usado em outra devolução, com outro conteúdo"),
    errors.HolderBlocked: (ENTITY, _BLOCKED),
    errors.RefundExceedsOriginal: ("devolucao.valor", _EXCEEDED),
    errors.RefundWindowClosed: ("e2eid", _CLOSED),
    errors.RefundInfractionOpen: ("e2eid", "o pagador contesta este Pix, e até a decisão só a instituição o devolve"),
    errors.InsufficientFunds: ("devolucao.valor", _NO_FUNDS),
    errors.AmountMismatch: ("devolucao.valor", "este Pix só pode ser devolvido por inteiro"),
    errors.LimitExceeded: ("devolucao.valor", "com as demais devoluções de hoje, é maior que o permitido para esta conta"),
}
"""The member that each refusal is about, and the reason."""


async def read_refund(context: Context, caller: Caller, end_to_end_id: str, refund_id: str) -> Devolucao:
    original = await find_received(context, caller, end_to_end_id)
    refund = errors.found(await _find(context.pool, original, refund_id), "id: there is no such refund of this Pix")
    (explained,) = await add_reasons(context.pool, [refund])
    return show_devolucao(refund_id, explained)


async def request_refund(
    context: Context,
    caller: Caller,
    original: Transfer,
    refund_id: str,
    *,
    amount_cents: int,
    description: str | None,
    is_new: bool = False,
) -> Devolucao:
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
        external_id=external_id_of(original, refund_id),
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
    return show_devolucao(refund_id, made)


async def _find(pool: Pool, original: Transfer, refund_id: str) -> Refund | None:
    return dict(name_refunds(original, await list_refunds_of_pix(pool, original))).get(refund_id)


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
    try:
        return await start_refund(context, caller, request, is_new=is_new)
    except tuple(_REFUSED) as refusal:
        if is_new and isinstance(refusal, errors.ExternalIdConflict):
            raise
        name, reason = next(words for kind, words in _REFUSED.items() if isinstance(refusal, kind))
    values = {"id": refund_id, "e2eid": request.end_to_end_id, "devolucao.valor": format_reais(request.amount_cents)}
    raise Violated(ENTITY, [_row(name, reason, values.get(name))])


def _row(name: str, reason: str, value: str | None = None) -> Violation:
    return Violation(property=name, reason=reason, value=value)
