"""Balance, the file of a day's movements, and how many keys may still be looked up, as Efi has them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Annotated, Final

from msgspec import Meta, Struct, field

from pixconnect.api.faces.efi.day_file import write_day
from pixconnect.api.faces.frame import Face
from pixconnect.api.faces.refusals import NamedRefusal
from pixconnect.api.frame.document import Document
from pixconnect.api.frame.operation import Reply
from pixconnect.api.frame.services import Services
from pixconnect.api.standard.frame import Asked
from pixconnect.api.standard.violations import Members, Violations
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.civil_time import to_day
from pixconnect.domain.frame.clock import format_milliseconds
from pixconnect.domain.frame.money import format_reais
from pixconnect.usecases.money import holder as holder_usecases
from pixconnect.usecases.money import ledger as ledger_usecases

_READY_AFTER: Final = timedelta(seconds=1)
_ID: Final = re.compile(r"([0-9]{8})([0-9]{13})")
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_BUCKETS: Final = {"baldeA": ("cpf", "cnpj", "evp"), "baldeB": ("telefone", "email")}
_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


class Saldo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    saldo: str
    bloqueios: dict[str, str] | None = None


class ChavesAleatorias(Struct, frozen=True, kw_only=True):
    chaves: Sequence[str]


class KeyBucket(Struct, frozen=True, kw_only=True, rename="camel"):
    """Quantas chaves ainda podem ser consultadas."""

    tipos_chave: Sequence[str]
    capacidade: int
    fichas_disponiveis: int
    taxa_de_reposicao_fichas: int
    periodo_reposicao_em_segundos: int = 60


class TiposDeRegistro(Struct, frozen=True):
    """Quais registros; aqui vêm todos."""


class RelatorioSolicitado(Struct, frozen=True, kw_only=True, rename="camel"):
    movement_day: Annotated[str, Meta(max_length=10)] = field(name="dataMovimento")
    tipo_registros: TiposDeRegistro


class RelatorioPedido(Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    asked_at: str = field(name="dataSolicitacao")
    status: str


async def read_balance(face: Face, services: Services, request: Asked) -> Reply:
    """O saldo disponível."""
    balance = await ledger_usecases.read_balance(services.context, request.caller)
    wants_blocked = request.query.read(("bloqueios",)).get("bloqueios") == "true"
    held = format_reais(balance.blocked_cents)
    blocked = dict(judicial="0.00", med=held, total=held) if wants_blocked else None
    is_in_it = face.choose(services, "blocked_balance") == "in"
    cents = balance.available_cents + (balance.blocked_cents if is_in_it else 0)
    return Reply(status=200, record=Saldo(saldo=format_reais(cents), bloqueios=blocked))


async def list_random_keys(face: Face, services: Services, request: Asked) -> Reply:
    """As chaves aleatórias da conta."""
    if face.is_homologation:
        raise NamedRefusal("KEYS_OFF", "funcionalidade desabilitada em ambiente de homologação")
    keys = await holder_usecases.list_pix_keys(services.context, request.caller.holder_id)
    return Reply(status=200, record=ChavesAleatorias(chaves=[key.key for key in keys if key.key_type == "EVP"]))


async def read_buckets(face: Face, services: Services, request: Asked) -> Reply:
    """Os baldes de fichas para a consulta de chaves."""
    context = services.context
    policy, left = await context.lookups.read_left(context, request.caller.holder_id)
    buckets = {
        name: KeyBucket(
            tipos_chave=kinds,
            capacidade=policy.tokens_max,
            fichas_disponiveis=left,
            taxa_de_reposicao_fichas=policy.refill_a_minute,
        )
        for name, kinds in _BUCKETS.items()
    }
    return Reply(status=200, record=buckets)


async def request_report(face: Face, services: Services, request: Asked) -> Reply:
    """Pede o arquivo dos movimentos de um dia que terminou."""
    violations = Violations("relatorio")
    body = Members(violations, RelatorioSolicitado, request.body.require("relatorio"), "")
    sent = body.text("dataMovimento", pattern=_DAY)
    now = services.context.clock.now()
    day = _read_day(sent)
    if sent is not None and (day is None or day >= to_day(now)):
        body.refuse("dataMovimento", "deve ser um dia anterior a hoje, AAAA-MM-DD")
    body.object("tipoRegistros")
    violations.raise_if_any()
    # The id says all that was asked for, so nothing is kept.
    name = f"{sent or ''}".replace("-", "") + f"{int((now - _EPOCH) / timedelta(milliseconds=1)):013d}"
    return Reply(status=201, record=_describe(name, now, "AGUARDANDO_PROCESSAMENTO"))


async def get_report(face: Face, services: Services, request: Asked) -> Reply | Document:
    """O arquivo, em CSV, quando está pronto."""
    (name,) = request.parameter
    found = _ID.fullmatch(name)
    day = None if found is None else _read_day(f"{found[1][:4]}-{found[1][4:6]}-{found[1][6:]}")
    if found is None or day is None:
        raise errors.NotFound("id: there is no such report")
    asked_at, now = _EPOCH + timedelta(milliseconds=int(found[2])), services.context.clock.now()
    if not timedelta(0) <= now - asked_at or day >= to_day(asked_at):
        raise errors.NotFound("id: there is no such report")
    if now - asked_at < _READY_AFTER:
        return Reply(status=202, record=_describe(name, asked_at, "EM_PROCESSAMENTO"))
    written = await write_day(services, request.caller, day)
    return Document(content=written.encode(), media_type="text/csv; charset=utf-8")


def _read_day(text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        return None


def _describe(name: str, asked_at: datetime, status: str) -> RelatorioPedido:
    return RelatorioPedido(id=name, asked_at=format_milliseconds(asked_at), status=status)
