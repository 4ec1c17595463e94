"""Lists at the standard's door: the interval, the page, and what every list says about itself.

An instant counts at the precision at which it is shown, milliseconds: one that an answer showed finds its item, used as
``inicio`` and as ``fim``.
"""

from __future__ import annotations

from datetime import MAXYEAR, datetime, timedelta
from typing import Annotated, Final, TypeVar

from msgspec import Meta, Struct, field

from pixconnect.api.standard.violations import Parameters
from pixconnect.domain.frame.clock import format_milliseconds
from pixconnect.domain.frame.listing import Span
from pixconnect.usecases.standard.pix import Instante

ListedT = TypeVar("ListedT", bound=Struct)

PAGE: Final = "paginacao.paginaAtual"
PAGE_SIZE: Final = "paginacao.itensPorPagina"
_PAGE_SIZE_DEFAULT: Final = 100
_PAGE_SIZE_MAX: Final = 1000
_MILLISECOND: Final = timedelta(milliseconds=1)
_MICROSECOND: Final = timedelta(microseconds=1)


class PageQuery(Struct, frozen=True, kw_only=True):
    """Qual página."""

    page: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = field(default=None, name=PAGE)
    """A página, a partir de 0; 0 se ausente."""
    page_size: Annotated[int, Meta(ge=1, le=_PAGE_SIZE_MAX)] | None = field(default=None, name=PAGE_SIZE)
    """Itens por página; 100 se ausente."""


class PeriodQuery(PageQuery, frozen=True, kw_only=True):
    """De quando e qual página."""

    inicio: Instante
    """O instante mais antigo, incluído; RFC 3339 com fuso."""
    fim: Instante
    """O instante mais novo, incluído até o fim do seu milissegundo; não antes de `inicio`."""


class Paginacao(Struct, frozen=True, kw_only=True, rename="camel"):
    """Qual página é esta, e quantas há."""

    pagina_atual: Annotated[int, Meta(ge=0)]
    """Esta página, a partir de 0."""
    itens_por_pagina: Annotated[int, Meta(ge=1)]
    """Itens por página."""
    quantidade_de_paginas: Annotated[int, Meta(ge=1)]
    """Páginas da lista; 1 mesmo se ela está vazia."""
    quantidade_total_de_itens: Annotated[int, Meta(ge=0)]
    """Itens da lista toda."""


class Parametros(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """O que foi pedido, e a página."""

    inicio: Instante | None = None
    """Como foi pedido, em UTC."""
    fim: Instante | None = None
    """Como foi pedido, em UTC."""
    paginacao: Paginacao
    """A página."""


class Interval(Struct, frozen=True):
    inicio: datetime | None
    fim: datetime | None

    @property
    def shown_inicio(self) -> str | None:
        return self.inicio and format_milliseconds(self.inicio)

    @property
    def shown_fim(self) -> str | None:
        return self.fim and format_milliseconds(self.fim)


class StandardPageRequest(Struct, frozen=True):
    number: int
    """From 0."""
    size: int

    def paginate(self, total_count: int) -> Paginacao:
        return Paginacao(
            pagina_atual=self.number,
            itens_por_pagina=self.size,
            # Rounded up: the last page need not be full. The standard has no list without a page.
            quantidade_de_paginas=max(1, -(-total_count // self.size)),
            quantidade_total_de_itens=total_count,
        )


def describe(
    interval: Interval, page: StandardPageRequest, total_count: int, record: type[ListedT], **filters: object
) -> ListedT:
    """What a list says about itself: the interval and the page, and the filters that its record has besides."""
    told = dict(inicio=interval.shown_inicio, fim=interval.shown_fim, paginacao=page.paginate(total_count))
    return record(**told, **filters)


def read_interval(parameters: Parameters) -> Interval:
    """``inicio`` and ``fim``, the first two that a list reads."""
    parameters = parameters.or_under(PeriodQuery)
    inicio, fim = parameters.instant("inicio"), parameters.instant("fim")
    if inicio is not None and fim is not None and fim < inicio:
        parameters.refuse("fim", "não pode ser anterior a inicio")
    return Interval(inicio, fim)


def read_page(parameters: Parameters) -> StandardPageRequest:
    """The page, the last that a list reads."""
    parameters = parameters.or_under(PageQuery)
    number, size = parameters.integer(PAGE), parameters.integer(PAGE_SIZE)
    return StandardPageRequest(number or 0, size or _PAGE_SIZE_DEFAULT)


def refuse_both_tax_ids(parameters: Parameters, cpf: str | None, cnpj: str | None) -> None:
    """Add a row where a list is filtered by a person and by a company at once."""
    if cpf is not None and cnpj is not None:
        parameters.refuse("cnpj", "não pode ser usado junto com cpf")


def make_span(interval: Interval, page: StandardPageRequest) -> Span:
    """The part of the list, for the store."""
    inicio, fim = interval.inicio, interval.fim
    # What is shown as an earlier millisecond is not in it. (Of the last one there is, all of it may be.)
    if inicio is not None and inicio.microsecond % 1000 and inicio.year < MAXYEAR:
        inicio = _cut(inicio) + _MILLISECOND
    if fim is not None:
        fim = _cut(fim) + (_MILLISECOND - _MICROSECOND)
    return Span(page=page.number + 1, page_size=page.size, initial_at=inicio, final_at=fim)


def _cut(instant: datetime) -> datetime:
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)
