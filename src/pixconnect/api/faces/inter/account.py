"""Balance and statements as Inter has them, by days of Sao Paulo."""

from __future__ import annotations

from datetime import date
from typing import Final

from pixconnect.api.faces.frame import Face, Shown, without_none
from pixconnect.api.faces.inter.send import is_code
from pixconnect.api.faces.local_days import DAYS, instants_of, parse_day, read_days
from pixconnect.api.faces.refusals import NamedRefusal
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


async def read_balance(face: Face, services: Services, request: Asked) -> Shown:
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
        return {"disponivel": statement.extent.closing_cents / 100}
    balance = await ledger_usecases.read_balance(context, caller)
    blocked = ("bloqueadoCheque", "bloqueadoJudicialmente", "bloqueadoAdministrativo", "limite") if day is None else ()
    return {"disponivel": balance.available_cents / 100, **dict.fromkeys(blocked, 0.0)}


async def list_simple(face: Face, services: Services, request: Asked) -> Shown:
    """O extrato de um período."""
    violations = Violations("extrato")
    values = request.query.read(DAYS)
    days = read_days(Parameters(violations, values), values)
    violations.raise_if_any()
    lines = await _read_lines(face, services, request, days)
    names = ("tipoTransacao", "tipoOperacao", "valor", "titulo", "descricao")
    shown = [{"dataEntrada": line["dataTransacao"], **{name: line[name] for name in names}} for line in lines]
    return {"transacoes": shown}


async def list_complete(face: Face, services: Services, request: Asked) -> Shown:
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
        if operation in (None, line["tipoOperacao"]) and (not wanted or line["tipoTransacao"] in wanted)
    ]
    shown, pages = lines[number * size : (number + 1) * size], max(1, -(-len(lines) // size))
    return {
        "totalPaginas": pages,
        "totalElementos": len(lines),
        "ultimaPagina": number >= pages - 1,
        "primeiraPagina": number == 0,
        "tamanhoPagina": size,
        "numeroDeElementos": len(shown),
        "transacoes": shown,
    }


async def _read_lines(face: Face, services: Services, request: Asked, days: tuple[date, date] | None) -> list[Shown]:
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


def _show(line: StatementLine, own: Party, returned: str) -> Shown:
    if line.movement is not None:
        kind, title = _MOVEMENT_KINDS.get(line.movement.kind, "OUTROS"), line.name_kind("pt")
    else:
        title = line.describe("pt").partition(" de ")[0].partition(" para ")[0]
        kind = "TRANSFERENCIA" if line.end_to_end_id is None else "PIX" if line.return_id is None else returned
    shown = {
        "idTransacao": str(line.id),
        "dataInclusao": to_day(line.created_at).isoformat(),
        "dataTransacao": to_day(line.dated_at).isoformat(),
        "tipoTransacao": kind,
        "tipoOperacao": "C" if line.direction == "IN" else "D",
        "valor": format_reais(line.amount_cents),
        "titulo": title,
        "descricao": line.describe("pt"),
        "detalhes": _show_details(line, own),
    }
    return without_none(shown)


def _show_details(line: StatementLine, own: Party) -> Shown | None:
    if line.movement is not None and line.movement.end_to_end_id is not None:
        return {"endToEndId": line.movement.end_to_end_id, "tipoDetalhe": "COMPLETE"}
    other = line.counterparty
    if line.end_to_end_id is None or other is None:
        return None
    ours, theirs = (own.name, own.tax_id), (other.name, other.tax_id)
    payer, payee = (theirs, ours) if line.direction == "IN" else (ours, theirs)
    is_sent = line.direction == "OUT" and line.return_id is None
    shown = {
        "txId": line.txid,
        "endToEndId": line.end_to_end_id,
        "codigoSolicitacao": line.external_id if is_sent and is_code(line.external_id) else None,
        "descricaoPix": line.payer_message if is_sent else line.description,
        "nomePagador": payer[0],
        "cpfCnpjPagador": payer[1],
        "nomeRecebedor": payee[0],
        "cpfCnpjRecebedor": payee[1],
        "tipoDetalhe": "COMPLETE",
    }
    return without_none(shown)
