"""A received Pix with its refunds, in the central bank's form: one record for answers and for webhooks.

It covers every settled incoming transfer: by key, by code or by account, from outside or by book. Refused or unsettled payments
are no Pix in that API.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field, structs

from pixconnect.features.contests.rules.infraction import REFUND_REASONS
from pixconnect.features.contests.tables import infraction as infraction_store
from pixconnect.features.due_charges.rules.day_amount import PaidAmount
from pixconnect.features.due_charges.service import find_paid_amounts
from pixconnect.features.pix_api import tables as pix_store
from pixconnect.features.pix_api.rules import SEARCHED_MAX, ReceivedSearch, Violated, Violation
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.listing import Page, Span
from pixconnect.kernel.rules.money import format_reais
from pixconnect.kernel.rules.rail import date_settled
from pixconnect.kernel.rules.refund import Refund, RefundReason, RefundStatus
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import refund as refund_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_milliseconds
from pixconnect.platform.pool import Connection, Pool

DevolucaoStatus = Literal["EM_PROCESSAMENTO", "DEVOLVIDO", "NAO_REALIZADO"]
Natureza = Literal["ORIGINAL", "RETIRADA", "MED_OPERACIONAL", "MED_FRAUDE"]

_MOTIVO_LENGTH_MAX: Final = 140
_SETTLED_WITHIN: Final = timedelta(minutes=10)
_REFUND_ID: Final = re.compile(r"[a-zA-Z0-9]{1,35}")
_TXID: Final = re.compile(r"[a-zA-Z0-9]{1,35}")
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


async def list_refunds_of_pix(context: Context, received: Transfer) -> Sequence[Refund]:
    """List the refunds of a Pix, in the order of their requests."""
    found = await refund_store.find_of_transfers(context.pool, [(received.id, received.holder_id)])
    return found.get((received.id, received.holder_id), ())


async def add_reasons(pool: Connection | Pool, refunds: Sequence[Refund]) -> list[Refund]:
    """Add an infraction's reason to the refunds that it caused: lists of returns lack it."""
    # Only the institution takes: refunds by a holder need no query.
    taken = [(each.id, each.holder_id) for each in refunds if each.made_by == "institution"]
    links = await infraction_store.find_links(pool, taken)
    return [
        structs.replace(each, reason=REFUND_REASONS[link.reason])
        if (link := links.get((each.id, each.holder_id)))
        else each
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
    if settled_at is None:
        raise errors.InvariantBroken("only a settled transfer is a Pix")
    return Pix(
        end_to_end_id=transfer.shown_id,
        # A payer's institution may send anything here; the standard's record has a form for it.
        txid=transfer.txid if transfer.txid and _TXID.fullmatch(transfer.txid) else None,
        valor=format_reais(transfer.amount_cents),
        componentes_valor=None if transfer.charge_id is None else _show_parts(transfer, paid),
        chave=transfer.own_key,
        horario=format_milliseconds(settled_at),
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
    own = {number: name for number, name in own.items() if _REFUND_ID.fullmatch(name)}
    # Every name of the network counts as taken: a refund with another one's name would hide it.
    taken = {*own.values(), *(refund.return_id for refund in refunds)}
    free = {number: name for number, name in given.items() if _REFUND_ID.fullmatch(name) and name not in taken}
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
