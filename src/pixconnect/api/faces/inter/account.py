"""Balance and statements as Inter has them, by days of Sao Paulo."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Final

from msgspec import Struct, field

from pixconnect.api.faces.frame import Face
from pixconnect.api.faces.inter.send import is_code
from pixconnect.api.faces.local_days import DAYS, instants_of, parse_day, read_days
from pixconnect.api.faces.refusals import NamedRefusal
from pixconnect.api.frame.operation import Reply
from pixconnect.api.frame.services import Services
from pixconnect.api.standard.frame import Asked
from pixconnect.api.standard.violations import Parameters, Violations
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.civil_time import to_day
from pixconnect.domain.frame.money import format_reais
from pixconnect.domain.money.holder import Party
from pixconnect.domain.money.rail import MovementKind
from pixconnect.domain.money.statement import StatementLine
from pixconnect.usecases.money import ledger as ledger_usecases
from pixconnect.usecases.reading import statement as statement_usecases

_LINES_MAX: Final = 10_000
_PAGE_SIZE: Final = 50
_MOVEMENT_KINDS: Final = dict[MovementKind, str](
    [
        ("fee", "TARIFA"),
        ("wire", "TRANSFERENCIA"),
        ("boleto", "PAGAMENTO"),
        ("by_hand", "TRANSFERENCIA"),
        ("reversal", "ESTORNO"),
    ]
)


class SaldoDaConta(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    disponivel: float
    bloqueado_cheque: float | None = None
    bloqueado_judicialmente: float | None = None
    bloqueado_administrativo: float | None = None
    limite: float | None = None


class DetalhePix(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    txid: str | None = field(default=None, name="txId")
    end_to_end_id: str
    codigo_solicitacao: str | None = None
    descricao_pix: str | None = None
    payer_name: str | None = field(default=None, name="nomePagador")
    payer_tax_id: str | None = field(default=None, name="cpfCnpjPagador")
    payee_name: str | None = field(default=None, name="nomeRecebedor")
    payee_tax_id: str | None = field(default=None, name="cpfCnpjRecebedor")
    tipo_detalhe: str


class Transacao(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Uma linha do extrato completo."""

    id_transacao: str
    entered_on: str = field(name="dataInclusao")
    made_on: str = field(name="dataTransacao")
    tipo_transacao: str
    tipo_operacao: str
    valor: str
    titulo: str
    descricao: str
    detalhes: DetalhePix | None = None


class ExtratoCompleto(Struct, frozen=True, kw_only=True, rename="camel"):
    """Uma página do extrato completo."""

    total_paginas: int
    total_elementos: int
    ultima_pagina: bool
    primeira_pagina: bool
    tamanho_pagina: int
    numero_de_elementos: int
    transacoes: Sequence[Transacao]


class TransacaoSimples(Struct, frozen=True, kw_only=True, rename="camel"):
    entered_on: str = field(name="dataEntrada")
    tipo_transacao: str
    tipo_operacao: str
    valor: str
    titulo: str
    descricao: str


class ExtratoSimples(Struct, frozen=True, kw_only=True):
    transacoes: Sequence[TransacaoSimples]


async def read_balance(face: Face, services: Services, request: Asked) -> Reply:
    """O saldo de agora, ou o do fim de um dia."""
    context, caller = services.context, request.caller
    violations = Violations("saldo")
    values = request.query.read(("dataSaldo",))
    day, today = parse_day(values.get("dataSaldo")), to_day(context.clock.now())
    if values and (day is None or day > today):
        Parameters(violations, values).refuse("dataSaldo", "deve ser um dia, AAAA-MM-DD, não depois de hoje")
    violations.raise_if_any()
    if day is not None and day < today:
        statement = await statement_usecases.open_statement(context, caller, *instants_of(day, day))
        return Reply(status=200, record=SaldoDaConta(disponivel=statement.extent.closing_cents / 100))
    balance = await ledger_usecases.read_balance(context, caller)
    record = SaldoDaConta(disponivel=balance.available_cents / 100)
    if day is None:
        nothing = dict.fromkeys(
            ("bloqueado_cheque", "bloqueado_judicialmente", "bloqueado_administrativo", "limite"), 0.0
        )
        record = SaldoDaConta(disponivel=balance.available_cents / 100, **nothing)
    return Reply(status=200, record=record)


async def list_simple(face: Face, services: Services, request: Asked) -> Reply:
    """O extrato de um período."""
    violations = Violations("extrato")
    values = request.query.read(DAYS)
    days = read_days(Parameters(violations, values), values)
    violations.raise_if_any()
    lines = await _read_lines(face, services, request, days)
    record = ExtratoSimples(
        transacoes=[
            TransacaoSimples(
                entered_on=line.made_on,
                tipo_transacao=line.tipo_transacao,
                tipo_operacao=line.tipo_operacao,
                valor=line.valor,
                titulo=line.titulo,
                descricao=line.descricao,
            )
            for line in lines
        ]
    )
    return Reply(status=200, record=record)


async def list_complete(face: Face, services: Services, request: Asked) -> Reply:
    """O extrato de um período com detalhes, em páginas."""
    violations = Violations("extrato")
    names = (*DAYS, "pagina", "tamanhoPagina", "tipoOperacao", "tipoTransacao", "scrollEnabled", "scrollId")
    values = request.query.read(names)
    parameters = Parameters(violations, values)
    days = read_days(parameters, values)
    number = parameters.integer("pagina", least=0) or 0
    size = parameters.integer("tamanhoPagina", least=1, most=_LINES_MAX) or _PAGE_SIZE
    operation = parameters.choice("tipoOperacao", ("D", "C"))
    if values.get("scrollEnabled") == "true" or "scrollId" in values:
        parameters.refuse("scrollEnabled", f"aqui não há scroll; um período tem no máximo {_LINES_MAX} transações")
    violations.raise_if_any()
    wanted = set((values.get("tipoTransacao") or "").replace(" ", "").split(",")) - {""}
    lines = [
        line
        for line in await _read_lines(face, services, request, days)
        if operation in (None, line.tipo_operacao) and (not wanted or line.tipo_transacao in wanted)
    ]
    shown, pages = lines[number * size : (number + 1) * size], max(1, -(-len(lines) // size))
    record = ExtratoCompleto(
        total_paginas=pages,
        total_elementos=len(lines),
        ultima_pagina=number >= pages - 1,
        primeira_pagina=number == 0,
        tamanho_pagina=size,
        numero_de_elementos=len(shown),
        transacoes=shown,
    )
    return Reply(status=200, record=record)


async def _read_lines(
    face: Face, services: Services, request: Asked, days: tuple[date, date] | None
) -> list[Transacao]:
    """All lines of these days, the oldest first."""
    if days is None:
        raise errors.InvariantBroken("what is missing is a violation")
    context = services.context
    statement = await statement_usecases.open_statement(context, request.caller, *instants_of(*days), language="pt")
    if statement.extent.lines_count > _LINES_MAX:
        raise NamedRefusal(
            "LINES", f"dataInicio, dataFim: este período tem mais de {_LINES_MAX} linhas; peça menos dias"
        )
    returned = face.choose(services, "return_line")
    parts = statement_usecases.read_parts(context, statement)
    return [
        _show(line, statement.account, returned)
        async for part in parts
        for line in part
        if not request.query.hides(line.created_at)
    ]


def _show(line: StatementLine, own: Party, returned: str) -> Transacao:
    if line.movement is not None:
        kind, title = _MOVEMENT_KINDS.get(line.movement.kind, "OUTROS"), line.name_kind("pt")
    else:
        title = line.describe("pt").partition(" de ")[0].partition(" para ")[0]
        kind = "TRANSFERENCIA" if line.end_to_end_id is None else "PIX" if line.return_id is None else returned
    return Transacao(
        id_transacao=str(line.id),
        entered_on=to_day(line.created_at).isoformat(),
        made_on=to_day(line.dated_at).isoformat(),
        tipo_transacao=kind,
        tipo_operacao="C" if line.direction == "IN" else "D",
        valor=format_reais(line.amount_cents),
        titulo=title,
        descricao=line.describe("pt"),
        detalhes=_show_details(line, own),
    )


def _show_details(line: StatementLine, own: Party) -> DetalhePix | None:
    if line.movement is not None and line.movement.end_to_end_id is not None:
        return DetalhePix(end_to_end_id=line.movement.end_to_end_id, tipo_detalhe="COMPLETE")
    other = line.counterparty
    if line.end_to_end_id is None or other is None:
        return None
    ours, theirs = (own.name, own.tax_id), (other.name, other.tax_id)
    payer, payee = (theirs, ours) if line.direction == "IN" else (ours, theirs)
    is_sent = line.direction == "OUT" and line.return_id is None
    return DetalhePix(
        txid=line.txid,
        end_to_end_id=line.end_to_end_id,
        codigo_solicitacao=line.external_id if is_sent and is_code(line.external_id) else None,
        descricao_pix=line.payer_message if is_sent else line.description,
        payer_name=payer[0],
        payer_tax_id=payer[1],
        payee_name=payee[0],
        payee_tax_id=payee[1],
        tipo_detalhe="COMPLETE",
    )
