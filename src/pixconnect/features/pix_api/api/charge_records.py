"""Records of immediate charges in the standard's form: requests, parsed by these records, and answers."""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from pixconnect.features.locations.service import CobStatus
from pixconnect.features.pix_api.api.frame import Parametros, PeriodQuery
from pixconnect.features.pix_api.api.location import LocationId, PayloadLocation
from pixconnect.features.pix_api.service.pix import Instante, Pix, Reais
from pixconnect.kernel.rules.br_code import BR_CODE_LENGTH_MAX, LOCATION_LENGTH_MAX
from pixconnect.kernel.rules.charge import PAYER_NAME_LENGTH_MAX
from pixconnect.kernel.rules.holder import KEY_LENGTH_MAX

Txid = Annotated[str, Meta(pattern="^[a-zA-Z0-9]{26,35}$")]
Cpf = Annotated[str, Meta(pattern=r"^\d{11}$")]
Cnpj = Annotated[str, Meta(pattern=r"^[0-9A-Z]{12}\d{2}$")]
_Expiracao = Annotated[int, Meta(ge=1, le=2**31 - 1)]
_Modalidade = Annotated[int, Meta(ge=0, le=1)]
Pergunta = Annotated[str, Meta(max_length=140)]
Chave = Annotated[str, Meta(max_length=KEY_LENGTH_MAX)]


class CalendarioSolicitado(Struct, frozen=True, kw_only=True):
    """Até quando a cobrança pode ser paga."""

    expiracao: _Expiracao | None = None
    """Segundos desde a criação; 86400 se ausente."""


class Calendario(Struct, frozen=True, kw_only=True):
    """Quando a cobrança foi criada e até quando pode ser paga."""

    criacao: Instante
    """Quando foi criada."""
    expiracao: _Expiracao
    """Segundos desde a criação."""


class Devedor(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """De quem se cobra: uma pessoa ou uma empresa."""

    cpf: Cpf | None = None
    """De uma pessoa, sem máscara."""
    cnpj: Cnpj | None = None
    """De uma empresa, sem máscara."""
    nome: Annotated[str, Meta(min_length=1, max_length=PAYER_NAME_LENGTH_MAX)]
    """O nome."""


class LocSolicitada(Struct, frozen=True, kw_only=True):
    """A location em que a cobrança será servida."""

    id: LocationId
    """Uma location livre do tipo cob, ou a da própria cobrança."""


class Valor(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Quanto se cobra."""

    original: Reais
    """Em reais, com dois decimais; 0.00 só se o pagador escolhe o valor."""
    modalidade_alteracao: _Modalidade | None = None
    """1 se o pagador pode pagar outro valor; 0 se ausente."""


class ValorRevisado(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """O que muda de quanto se cobra."""

    original: Reais | None = None
    """Em reais, com dois decimais."""
    modalidade_alteracao: _Modalidade | None = None
    """1 se o pagador pode pagar outro valor."""


class Linha(Struct, frozen=True, kw_only=True):
    """Uma linha a mais que o pagador lê."""

    nome: Annotated[str, Meta(max_length=50)]
    """De que se trata."""
    valor: Annotated[str, Meta(max_length=200)]
    """O que se diz."""


Linhas = Annotated[Sequence[Linha], Meta(max_length=50)]


class CobSolicitada(Struct, frozen=True, kw_only=True, rename="camel"):
    """Uma cobrança imediata a criar, ou o conteúdo que substitui o de uma que está ativa."""

    calendario: CalendarioSolicitado | None = None
    """Até quando pode ser paga."""
    devedor: Devedor | None = None
    """De quem se cobra."""
    loc: LocSolicitada | None = None
    """Onde será servida; ausente, uma location nova, ou a que a cobrança já tem."""
    valor: Valor
    """Quanto se cobra."""
    chave: Chave
    """Uma chave Pix do recebedor."""
    solicitacao_pagador: Pergunta | None = None
    """Um texto que pede algo ao pagador."""
    linhas: Linhas | None = field(default=None, name="infoAdicionais")
    """Linhas a mais que o pagador lê."""


class CobRevisada(Struct, frozen=True, kw_only=True, rename="camel"):
    """O que muda de uma cobrança imediata ativa; o que está ausente fica como estava."""

    calendario: CalendarioSolicitado | None = None
    """Até quando pode ser paga."""
    devedor: Devedor | None = None
    """De quem se cobra, todo."""
    loc: LocSolicitada | None = None
    """Onde passa a ser servida."""
    status: Literal["REMOVIDA_PELO_USUARIO_RECEBEDOR"] | None = None
    """Remove a cobrança; sozinho no corpo."""
    valor: ValorRevisado | None = None
    """Quanto se cobra."""
    chave: Chave | None = None
    """Uma chave Pix do recebedor."""
    solicitacao_pagador: Pergunta | None = None
    """Um texto que pede algo ao pagador."""
    linhas: Linhas | None = field(default=None, name="infoAdicionais")
    """Linhas a mais que o pagador lê, todas."""


class CobCompleta(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Uma cobrança imediata."""

    calendario: Calendario
    """Quando foi criada e até quando pode ser paga."""
    txid: Txid
    """O identificador da cobrança."""
    revisao: Annotated[int, Meta(ge=0)]
    """Quantas vezes foi mudada."""
    devedor: Devedor | None = None
    """De quem se cobra."""
    loc: PayloadLocation | None = None
    """Onde é servida; ausente se a location foi tirada dela."""
    location: Annotated[str, Meta(max_length=LOCATION_LENGTH_MAX)] | None = None
    """O mesmo que `loc.location`."""
    status: CobStatus
    """ATIVA até ser paga ou removida, também depois de expirar."""
    valor: Valor
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


class CobQuery(Struct, frozen=True, kw_only=True):
    """Qual revisão."""

    revisao: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    """A revisão; a mais recente se ausente."""


class CobListQuery(PeriodQuery, frozen=True, kw_only=True, rename="camel"):
    """De quando, quais e qual página."""

    cpf: Cpf | None = None
    """Só as de um devedor com este CPF."""
    cnpj: Cnpj | None = None
    """Só as de um devedor com este CNPJ."""
    location_presente: bool | None = None
    """Só as que têm location, ou só as que não têm."""
    status: CobStatus | None = None
    """Só as que estão neste status."""


class ParametrosCob(Parametros, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """O que foi pedido, e a página."""

    cpf: Cpf | None = None
    cnpj: Cnpj | None = None
    location_presente: bool | None = None
    status: CobStatus | None = None


class CobsConsultadas(Struct, frozen=True, kw_only=True):
    """Uma página de cobranças imediatas."""

    parametros: ParametrosCob
    """O que foi pedido."""
    cobs: Sequence[CobCompleta]
    """As cobranças, da mais nova à mais antiga."""
