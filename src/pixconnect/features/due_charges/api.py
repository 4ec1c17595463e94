"""Records of charges with a due date in the standard's form: requests, parsed by these records, and answers."""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from pixconnect.features.due_charges.rules.terms import DEDUCTION_KINDS, DISCOUNT_KINDS, INTEREST_KINDS
from pixconnect.features.locations.service import CobStatus, RecebedorEndereco
from pixconnect.features.pix_api.api.charge_records import (
    Chave,
    CobListQuery,
    Devedor,
    Linhas,
    LocSolicitada,
    ParametrosCob,
    Pergunta,
    Txid,
)
from pixconnect.features.pix_api.api.location import PayloadLocation
from pixconnect.features.pix_api.rules import LOT_NUMBER_MAX
from pixconnect.features.pix_api.service.pix import Instante, Pix, Reais
from pixconnect.kernel.rules.br_code import BR_CODE_LENGTH_MAX, LOCATION_LENGTH_MAX
from pixconnect.kernel.rules.tax_id import STREET_LENGTH_MAX

Dia = Annotated[str, Meta(extra_json_schema=dict(format="date"), examples=["2026-12-31"])]
_Validade = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Lote = Annotated[int, Meta(ge=1, le=LOT_NUMBER_MAX)]
_Linha = Annotated[str, Meta(max_length=STREET_LENGTH_MAX)]
# The standard numbers a kind by its place in its table.
_AbatimentoModalidade = Annotated[int, Meta(ge=1, le=len(DEDUCTION_KINDS))]
_JurosModalidade = Annotated[int, Meta(ge=1, le=len(INTEREST_KINDS))]
_DescontoModalidade = Annotated[int, Meta(ge=1, le=len(DISCOUNT_KINDS))]


class VencimentoSolicitado(Struct, frozen=True, kw_only=True, rename="camel"):
    """Até quando a cobrança pode ser paga."""

    vencimento: Dia = field(name="dataDeVencimento")
    """O vencimento; se não é dia útil, vale o próximo dia útil."""
    validade_apos_vencimento: _Validade | None = None
    """Dias corridos em que ainda pode ser paga depois do vencimento; 30 se ausente."""


class VencimentoRevisado(Struct, frozen=True, kw_only=True, rename="camel"):
    """O que muda de até quando a cobrança pode ser paga."""

    vencimento: Dia | None = field(default=None, name="dataDeVencimento")
    """O vencimento."""
    validade_apos_vencimento: _Validade | None = None
    """Dias corridos em que ainda pode ser paga depois do vencimento."""


class Vencimento(Struct, frozen=True, kw_only=True, rename="camel"):
    """Quando a cobrança foi criada e até quando pode ser paga."""

    criacao: Instante
    """Quando foi criada."""
    vencimento: Dia = field(name="dataDeVencimento")
    """O vencimento, como foi enviado."""
    validade_apos_vencimento: _Validade
    """Dias corridos em que ainda pode ser paga depois do vencimento."""


class DevedorEndereco(Devedor, frozen=True, kw_only=True, omit_defaults=True):
    """De quem se cobra: uma pessoa ou uma empresa."""

    email: Annotated[str, Meta(max_length=254)] | None = None
    """O e-mail."""
    logradouro: _Linha | None = None
    """A rua e o número."""
    cidade: _Linha | None = None
    """A cidade."""
    uf: Annotated[str, Meta(max_length=2)] | None = None
    """O estado."""
    cep: Annotated[str, Meta(max_length=8)] | None = None
    """O CEP, sem máscara."""


class Abatimento(Struct, frozen=True, kw_only=True, rename="camel"):
    """Uma soma, ou uma parte do valor."""

    modalidade: _AbatimentoModalidade
    """1: valor fixo; 2: percentual."""
    valor_perc: Reais
    """Em reais ou por cento, com dois decimais."""


class Juros(Struct, frozen=True, kw_only=True, rename="camel"):
    """O que se cobra por dia de atraso."""

    modalidade: _JurosModalidade
    """1 a 4: dias corridos, valor, percentual ao dia, ao mês, ao ano; 5 a 8: o mesmo em dias úteis."""
    valor_perc: Reais
    """Em reais ou por cento, com dois decimais."""


class DescontoDia(Struct, frozen=True, kw_only=True, rename="camel"):
    """Um desconto até uma data."""

    dia: Dia = field(name="data")
    """O último dia em que vale; não depois do vencimento. Sem expediente bancário, passa ao próximo dia útil."""
    valor_perc: Reais
    """Em reais ou por cento, com dois decimais."""


_Dias = Annotated[Sequence[DescontoDia], Meta(min_length=1, max_length=3)]


class Desconto(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """O que se desconta de quem paga antes."""

    modalidade: _DescontoModalidade
    """1, 2: valor ou percentual até datas; 3, 4: valor por dia corrido ou útil de antecipação; 5, 6: percentual."""
    valor_perc: Reais | None = None
    """Com as modalidades 3 a 6: de cada dia."""
    dias: _Dias | None = field(default=None, name="descontoDataFixa")
    """Com as modalidades 1 e 2: de uma a três datas distintas."""


class ValorVencimento(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Quanto se cobra, e o que o muda."""

    original: Reais
    """Em reais, com dois decimais; maior que 0.00."""
    multa: Abatimento | None = None
    """O que se cobra uma vez a partir do primeiro dia de atraso."""
    juros: Juros | None = None
    """O que se cobra por dia de atraso."""
    abatimento: Abatimento | None = None
    """O que se abate em qualquer dia; menor que o valor original."""
    desconto: Desconto | None = None
    """O que se desconta de quem paga antes."""


class ValorVencimentoRevisado(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """O que muda de quanto se cobra; cada parte enviada substitui a que havia, toda."""

    original: Reais | None = None
    """Em reais, com dois decimais; maior que 0.00."""
    multa: Abatimento | None = None
    """O que se cobra uma vez a partir do primeiro dia de atraso."""
    juros: Juros | None = None
    """O que se cobra por dia de atraso."""
    abatimento: Abatimento | None = None
    """O que se abate em qualquer dia."""
    desconto: Desconto | None = None
    """O que se desconta de quem paga antes."""


class CobVSolicitada(Struct, frozen=True, kw_only=True, rename="camel"):
    """Uma cobrança com vencimento a criar, ou o conteúdo que substitui o de uma que está ativa."""

    calendario: VencimentoSolicitado
    """Até quando pode ser paga."""
    devedor: DevedorEndereco
    """De quem se cobra."""
    loc: LocSolicitada | None = None
    """Onde será servida, uma location do tipo cobv; ausente, uma nova, ou a que a cobrança já tem."""
    valor: ValorVencimento
    """Quanto se cobra."""
    chave: Chave
    """Uma chave Pix do recebedor."""
    solicitacao_pagador: Pergunta | None = None
    """Um texto que pede algo ao pagador."""
    linhas: Linhas | None = field(default=None, name="infoAdicionais")
    """Linhas a mais que o pagador lê."""


class CobVRevisada(Struct, frozen=True, kw_only=True, rename="camel"):
    """O que muda de uma cobrança com vencimento ativa; o que está ausente fica como estava."""

    calendario: VencimentoRevisado | None = None
    """Até quando pode ser paga."""
    devedor: DevedorEndereco | None = None
    """De quem se cobra, todo."""
    loc: LocSolicitada | None = None
    """Onde passa a ser servida."""
    status: Literal["REMOVIDA_PELO_USUARIO_RECEBEDOR"] | None = None
    """Remove a cobrança; sozinho no corpo."""
    valor: ValorVencimentoRevisado | None = None
    """Quanto se cobra."""
    chave: Chave | None = None
    """Uma chave Pix do recebedor."""
    solicitacao_pagador: Pergunta | None = None
    """Um texto que pede algo ao pagador."""
    linhas: Linhas | None = field(default=None, name="infoAdicionais")
    """Linhas a mais que o pagador lê, todas."""


class CobVCompleta(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Uma cobrança com vencimento."""

    calendario: Vencimento
    """Quando foi criada e até quando pode ser paga."""
    txid: Txid
    """O identificador da cobrança."""
    revisao: Annotated[int, Meta(ge=0)]
    """Quantas vezes foi mudada."""
    devedor: DevedorEndereco
    """De quem se cobra."""
    recebedor: RecebedorEndereco
    """Quem cobra."""
    loc: PayloadLocation | None = None
    """Onde é servida; ausente se a location foi tirada dela."""
    location: Annotated[str, Meta(max_length=LOCATION_LENGTH_MAX)] | None = None
    """O mesmo que `loc.location`."""
    status: CobStatus
    """ATIVA até ser paga ou removida, também depois da validade."""
    valor: ValorVencimento
    """Quanto se cobra."""
    chave: Chave
    """A chave Pix que recebe."""
    solicitacao_pagador: Pergunta | None = None
    """Um texto que pede algo ao pagador."""
    linhas: Linhas | None = field(default=None, name="infoAdicionais")
    """Linhas a mais que o pagador lê."""
    pix_copia_e_cola: Annotated[str, Meta(max_length=BR_CODE_LENGTH_MAX)] | None = None
    """O texto do QR Code; ausente se a location foi tirada dela."""
    pix: Sequence[Pix] | None = None
    """O Pix que a pagou; ausente se não foi paga."""


class CobVListQuery(CobListQuery, frozen=True, kw_only=True, rename="camel"):
    """De quando, quais e qual página."""

    lote: _Lote | None = field(default=None, name="loteCobVId")
    """Só as criadas por este lote."""


class ParametrosCobV(ParametrosCob, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """O que foi pedido, e a página."""

    lote: _Lote | None = field(default=None, name="loteCobVId")


class CobsVConsultadas(Struct, frozen=True, kw_only=True):
    """Uma página de cobranças com vencimento."""

    parametros: ParametrosCobV
    """O que foi pedido."""
    cobs: Sequence[CobVCompleta]
    """As cobranças, da mais nova à mais antiga."""
