"""Refusals as the central bank's Pix API writes them: ``application/problem+json`` (RFC 9457) with the standard's types.

Types and statuses are the standard's, the texts are ours. Refusals without a type of the standard are ``about:blank``, whose
title is that of the status.
"""

from collections import ChainMap
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from typing import Final

import msgspec
from msgspec import Struct

from pixconnect.doors.api import envelope
from pixconnect.doors.api.envelope import Refused
from pixconnect.doors.api.operation import RefusalForm
from pixconnect.kernel.feature import gather
from pixconnect.platform.base import errors
from pixconnect.platform.base.errors import Violated, Violation

MEDIA_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "https://pix.bcb.gov.br/api/v2/error/"
_BLANK: Final = "about:blank"


class Violacao(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Uma regra que a requisição não cumpre."""

    razao: str
    """O que está errado."""
    propriedade: str
    """O campo, com o caminho até ele; um parâmetro, pelo nome."""
    valor: str | None = None
    """O que foi enviado, como texto; ausente se nada foi enviado."""


class Problema(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Por que a requisição foi recusada (RFC 9457)."""

    type: str
    """O tipo do erro, para programas."""
    title: str
    """O tipo do erro, para pessoas."""
    status: int
    """O status HTTP desta resposta."""
    detail: str
    """O que houve com esta requisição."""
    correlation_id: str
    """O identificador desta requisição, igual ao cabeçalho `X-Request-Id`."""
    violacoes: Sequence[Violacao] = ()
    """Tudo o que está errado, de uma vez."""


class ProblemaDoItem(Struct, frozen=True, kw_only=True):
    """Por que a cobrança de um lote foi negada (RFC 9457)."""

    type: str
    """O tipo do erro, para programas."""
    title: str
    """O tipo do erro, para pessoas."""
    status: int
    """O status HTTP que a mesma requisição teria sozinha."""
    detail: str
    """O que houve com esta cobrança."""
    violacoes: Sequence[Violacao]
    """Tudo o que está errado, de uma vez."""


class Types(Struct, frozen=True, kw_only=True):
    """The standard's types for the refusals of one operation."""

    invalid: str  # of 400
    missing: str = "NaoEncontrado"  # of 404


GENERAL: Final = Types(invalid="RequisicaoInvalida")


class StandardWords(Struct, frozen=True, kw_only=True):
    """What a feature adds to the texts of the central bank's API, in Portuguese."""

    titles: Mapping[str, str] = {}  # of the types of its refusals
    tags: Mapping[str, str] = {}  # what its operations are about: by the first part of their ids
    # Text and JSON Schema of a parameter, by the beginning of the paths that it ends.
    path_parameters: Mapping[str, tuple[str, dict[str, object]]] = {}
    # By an operation's id, the operations that its success leads to, and their parameters.
    links: Mapping[str, Mapping[str, Mapping[str, str]]] = {}


def merge_words(own: StandardWords) -> StandardWords:
    """Add the features' texts to these."""
    every = (own, *gather("standard_words", StandardWords))
    members = StandardWords.__struct_fields__
    return StandardWords(**{member: dict(ChainMap(*(getattr(words, member) for words in every))) for member in members})


class MalformedRequest(errors.BadRequest):
    """An error of no entity: a repeated parameter, octets that are no text. The message is Portuguese."""


class UnsupportedMediaType(errors.BadRequest):
    """The body is declared to be something else than JSON."""


_TITLES: Final[Mapping[str, str]] = dict(
    RequisicaoInvalida="Requisição inválida",
    AcessoNegado="Acesso negado",
    NaoEncontrado="Não encontrado",
    ErroInternoDoServidor="Erro interno",
    ServicoIndisponivel="Serviço indisponível",
    IndisponibilidadePorTempoEsgotado="Tempo esgotado",
    CobNaoEncontrado="Cobrança não encontrada",
    CobOperacaoInvalida="Cobrança inválida",
    CobConsultaInvalida="Consulta de cobranças inválida",
    CobVNaoEncontrada="Cobrança com vencimento não encontrada",
    CobVOperacaoInvalida="Cobrança com vencimento inválida",
    CobVConsultaInvalida="Consulta de cobranças com vencimento inválida",
    PayloadLocationNaoEncontrado="Location não encontrada",
    PayloadLocationOperacaoInvalida="Location inválida",
    PayloadLocationConsultaInvalida="Consulta de locations inválida",
    PixNaoEncontrado="Pix não encontrado",
    PixConsultaInvalida="Consulta de Pix inválida",
    PixDevolucaoNaoEncontrada="Devolução não encontrada",
    PixDevolucaoInvalida="Devolução inválida",
    CobPayloadNaoEncontrado="Cobrança não encontrada",
    CobPayloadOperacaoInvalida="Consulta da cobrança inválida",
    WebhookNaoEncontrado="Webhook não encontrado",
    WebhookOperacaoInvalida="Webhook inválido",
    WebhookConsultaInvalida="Consulta de webhooks inválida",
)
_BLANK_TITLES: Final[Mapping[int, str]] = {
    401: "Não autenticado",
    405: "Método não permitido",
    413: "Conteúdo grande demais",
    415: "Tipo de conteúdo não aceito",
    429: "Requisições demais",
}
_DETAILS: Final[Mapping[str, str]] = dict(
    UNAUTHORIZED="Falta um token de acesso válido no cabeçalho Authorization.",
    FORBIDDEN="O token não permite esta operação, ou ela não está disponível.",
    NOT_FOUND="Não existe o que o caminho indica.",
    METHOD_NOT_ALLOWED="Este caminho não aceita o método usado; veja o cabeçalho Allow.",
    PAYLOAD_TOO_LARGE="O corpo passa do tamanho máximo.",
    RATE_LIMITED="O limite de requisições foi atingido; espere o tempo do cabeçalho Retry-After.",
    INTERNAL_ERROR="Houve um erro do serviço.",
    SERVICE_UNAVAILABLE="O serviço não pode atender agora e nada foi feito; tente de novo.",
    OUTCOME_UNKNOWN="Não se sabe se a operação foi feita; repita a mesma requisição.",
    BAD_REQUEST="A requisição não tem a forma esperada.",
    AMOUNT_OUT_OF_RANGE="O valor está fora dos limites de um Pix.",
    LIMIT_EXCEEDED="A operação passa de um limite da conta.",
    HOLDER_BLOCKED="A conta está bloqueada para esta operação.",
    INSUFFICIENT_FUNDS="O saldo disponível é menor que o valor.",
    EXTERNAL_ID_CONFLICT="O identificador já foi usado com outro conteúdo.",
)
_MAY_BE_DONE: Final = (
    "A conta está pausada desde que o banco de dados foi restaurado, e a operação pode ter sido feita antes disso; repita mais "
    "tarde a mesma requisição, com o mesmo identificador."
)
_ROWS_FOLLOW: Final = "Veja em violacoes tudo o que está errado."
_REPEAT: Final = "repita a requisição com PUT e esse txid, o que não a faz duas vezes."


@cache
def _find_titles() -> Mapping[str, str]:
    return merge_words(StandardWords(titles=_TITLES)).titles


def make_form(types: Types) -> RefusalForm:
    return RefusalForm(write=partial(_refuse, types), record=Problema, media_type=MEDIA_TYPE)


def _refuse(types: Types, error: errors.PixConnectError, request_id: str, now: datetime) -> Refused:
    status, name = _judge(types, error)
    rows = error.rows if isinstance(error, Violated) else ()
    problem = Problema(
        type=TYPE_PREFIX + name if name else _BLANK,
        title=_find_titles()[name] if name else _BLANK_TITLES[status],
        status=status,
        detail=describe_refusal(error),
        correlation_id=request_id,
        violacoes=tuple(map(_show, rows)),
    )
    return Refused(
        status=status, content=msgspec.json.encode(problem), headers=envelope.error_headers(error), media_type=MEDIA_TYPE
    )


def describe_rows(rows: Sequence[Violation]) -> ProblemaDoItem:
    """Describe the refusal of a lot's item: as for a single request, without its own request id."""
    name = "CobVOperacaoInvalida"
    return ProblemaDoItem(
        type=TYPE_PREFIX + name, title=_find_titles()[name], status=400, detail=_ROWS_FOLLOW, violacoes=tuple(map(_show, rows))
    )


def describe_refusal(error: errors.PixConnectError) -> str:
    """Describe what happened, in Portuguese."""
    if isinstance(error, Violated):
        return _ROWS_FOLLOW if error.rows else "O corpo deve ser um objeto JSON."
    if isinstance(error, errors.OutcomeUnknown) and error.txid is not None:
        return f"Não se sabe se a cobrança foi feita. O txid dela é {error.txid}: {_REPEAT}"
    if isinstance(error, errors.ServiceUnavailable) and error.may_be_done:
        return _MAY_BE_DONE
    return error.message if isinstance(error, MalformedRequest) else _DETAILS.get(error.code, _DETAILS["BAD_REQUEST"])


def _judge(types: Types, error: errors.PixConnectError) -> tuple[int, str]:
    """Return the status, and the name of the standard's type; empty if it has none."""
    match error:
        case errors.NotFound():
            return 404, types.missing
        case errors.Forbidden():
            return 403, "AcessoNegado"
        case errors.Unauthorized() | errors.MethodNotAllowed() | errors.PayloadTooLarge() | errors.RateLimited():
            return envelope.find_status(error.code), ""
        case UnsupportedMediaType():
            return 415, ""
        case errors.ServiceUnavailable():
            return 503, "ServicoIndisponivel"
        case errors.OutcomeUnknown():
            return 504, "IndisponibilidadePorTempoEsgotado"
        case errors.Refusal():
            # The standard has neither 409 nor 422: any other refusal is an invalid operation.
            return 400, GENERAL.invalid if isinstance(error, MalformedRequest) else types.invalid
        case _:
            return 500, "ErroInternoDoServidor"


def _show(row: Violation) -> Violacao:
    return Violacao(razao=row.reason, propriedade=row.property, valor=row.value)
