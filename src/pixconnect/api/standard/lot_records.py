"""Lots of charges with a due date as the standard writes them: what is sent, and what is answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from pixconnect.api.standard.charge_records import Txid
from pixconnect.api.standard.due_records import CobVRevisada, CobVSolicitada
from pixconnect.api.standard.listing import Parametros, PeriodQuery
from pixconnect.api.standard.problem import ProblemaDoItem
from pixconnect.domain.standard.charge_lot import DESCRIPTION_LENGTH_MAX, ITEMS_MAX, NUMBER_MAX
from pixconnect.usecases.standard.pix import Instante

BODY_MAX: Final = 4 * 1024 * 1024
"""In bytes: a thousand charges that say all that they may."""

ItemStatusShown = Literal["EM_PROCESSAMENTO", "CRIADA", "NEGADA"]
_Descricao = Annotated[str, Meta(min_length=1, max_length=DESCRIPTION_LENGTH_MAX)]


class CobVDoLote(CobVSolicitada, frozen=True, kw_only=True, rename="camel"):
    """Uma cobrança do lote a criar, ou o conteúdo que substitui o da que já foi criada."""

    txid: Txid
    """O identificador da cobrança; cada um aparece uma só vez."""


class CobVRevisadaDoLote(CobVRevisada, frozen=True, kw_only=True, rename="camel"):
    """O que muda de uma cobrança do lote; de uma que não foi criada, o que muda do pedido de criação."""

    txid: Txid
    """O identificador da cobrança; cada um aparece uma só vez."""


class LoteCobVSolicitado(Struct, frozen=True, kw_only=True):
    """Um lote a criar, ou pedidos para todas as cobranças de um que existe."""

    descricao: _Descricao
    """Um nome para o lote."""
    cobsv: Annotated[Sequence[CobVDoLote], Meta(min_length=1, max_length=ITEMS_MAX)]
    """As cobranças; de um lote que existe, exatamente as mesmas."""


class LoteCobVRevisado(Struct, frozen=True, kw_only=True):
    """Pedidos para algumas cobranças de um lote."""

    descricao: _Descricao | None = None
    """Um nome para o lote."""
    cobsv: Annotated[Sequence[CobVRevisadaDoLote], Meta(min_length=1, max_length=ITEMS_MAX)] | None = None
    """Cobranças do lote."""


class ItemDoLote(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Uma cobrança do lote, e em que deu o último pedido."""

    criacao: Instante | None = None
    """Quando a cobrança foi criada; presente com CRIADA."""
    txid: Txid
    """O identificador da cobrança."""
    status: ItemStatusShown
    """EM_PROCESSAMENTO, depois CRIADA ou NEGADA; uma mudança NEGADA deixa a cobrança como estava."""
    problema: ProblemaDoItem | None = None
    """Por que o pedido foi negado; presente com NEGADA."""


class LoteCobVConsultado(Struct, frozen=True, kw_only=True):
    """Um lote de cobranças com vencimento."""

    numero: Annotated[int, Meta(ge=1, le=NUMBER_MAX)] = field(name="id")
    """O identificador do lote."""
    descricao: str
    """O nome do lote."""
    criacao: Instante
    """Quando o lote foi pedido."""
    cobsv: Sequence[ItemDoLote]
    """As cobranças, na ordem em que foram pedidas."""


class LoteCobVListQuery(PeriodQuery, frozen=True, kw_only=True):
    """De quando e qual página."""


class LotesCobVConsultados(Struct, frozen=True, kw_only=True):
    """Uma página de lotes."""

    parametros: Parametros
    """O que foi pedido."""
    lotes: Sequence[LoteCobVConsultado]
    """Os lotes, do mais novo ao mais antigo."""
