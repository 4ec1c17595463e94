"""Balance and statement as Sicoob has them: a month at a time, by days of Sao Paulo."""

from __future__ import annotations

import calendar
from datetime import date
from typing import Final

from pixconnect.api.faces.frame import Face, Shown, read_own
from pixconnect.api.faces.local_days import instants_of
from pixconnect.api.faces.refusals import NamedRefusal
from pixconnect.api.frame.services import Services
from pixconnect.api.standard.frame import Asked
from pixconnect.api.standard.violations import Parameters, Violations
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.civil_time import SAO_PAULO, to_day
from pixconnect.domain.frame.money import format_reais
from pixconnect.domain.money.statement import StatementLine
from pixconnect.usecases.money import ledger as ledger_usecases
from pixconnect.usecases.reading import statement as statement_usecases

_LINES_MAX: Final = 10_000
_ACCOUNT_MAX: Final = 10**18
_NOTHING: Final = "0.00"


async def read_balance(face: Face, services: Services, request: Asked) -> Shown:
    """O saldo de agora."""
    violations = Violations("saldo")
    parameters = Parameters(violations, request.query.read(("numeroContaCorrente",)))
    await _check_account(services, request, parameters)
    violations.raise_if_any()
    balance = await ledger_usecases.read_balance(services.context, request.caller)
    shown = {"saldo": balance.available_cents / 100, "saldoLimite": 0, "saldoBloqueado": 0}
    return _answer(face, services, shown)


async def list_month(face: Face, services: Services, request: Asked) -> Shown:
    """O extrato de um mês."""
    month, year = request.parameter
    violations = Violations("extrato")
    names = ("numeroContaCorrente", "diaInicial", "diaFinal", "agruparCNAB")
    values = request.query.read(names)
    days = _read_days(Parameters(violations, {"mes": month, "ano": year}), Parameters(violations, values))
    parameters = Parameters(violations, values)
    parameters.boolean("agruparCNAB")
    if await _check_account(services, request, parameters) is None and "numeroContaCorrente" not in values:
        parameters.refuse("numeroContaCorrente", "é obrigatório")
    violations.raise_if_any()
    if days is None:
        raise errors.InvariantBroken("what is missing is a violation")
    context = services.context
    statement = await statement_usecases.open_statement(context, request.caller, *instants_of(*days), language="pt")
    if statement.extent.lines_count > _LINES_MAX:
        raise NamedRefusal(
            "LINES", f"diaInicial, diaFinal: estes dias têm mais de {_LINES_MAX} linhas; peça menos dias"
        )
    balance = await ledger_usecases.read_balance(context, request.caller)
    is_end_to_end = face.choose(services, "transaction_id") == "end_to_end_id"
    shown = {
        "saldoAtual": format_reais(balance.available_cents),
        "saldoBloqueado": _NOTHING,
        "saldoLimite": _NOTHING,
        "saldoAnterior": format_reais(statement.extent.opening_cents),
        "saldoBloqueioJudicial": _NOTHING,
        "saldoBloqueioJudicialAnterior": _NOTHING,
        "transacoes": [
            _show(line, is_end_to_end=is_end_to_end)
            async for part in statement_usecases.read_parts(context, statement)
            for line in part
            if not request.query.hides(line.created_at)
        ],
    }
    return _answer(face, services, shown)


def _answer(face: Face, services: Services, shown: Shown) -> Shown:
    return {"resultado": shown} if face.choose(services, "account_answer") == "resultado" else shown


async def _check_account(services: Services, request: Asked, parameters: Parameters) -> int | None:
    number = parameters.integer("numeroContaCorrente", least=0, most=_ACCOUNT_MAX)
    if number is not None and number != int((await read_own(services, request.caller)).account_number):
        parameters.refuse("numeroContaCorrente", "não é a conta deste cliente")
    return number


def _read_days(path: Parameters, query: Parameters) -> tuple[date, date] | None:
    month = path.integer("mes", least=1, most=12)
    year = path.integer("ano", least=1970, most=9998)
    if month is None or year is None:
        return None
    last_day = calendar.monthrange(year, month)[1]
    first = query.integer("diaInicial", least=1, most=last_day) or 1
    last = query.integer("diaFinal", least=1, most=last_day) or last_day
    if first > last:
        return query.refuse("diaFinal", "não pode ser anterior a diaInicial")
    return date(year, month, first), date(year, month, last)


def _show(line: StatementLine, *, is_end_to_end: bool) -> Shown:
    description = line.describe("pt")
    made_at = line.dated_at.astimezone(SAO_PAULO).replace(tzinfo=None)
    name = (line.return_id or line.end_to_end_id) if is_end_to_end else None
    return {
        "transactionId": name or str(line.id),
        "tipo": "CREDITO" if line.direction == "IN" else "DEBITO",
        "valor": format_reais(line.amount_cents),
        "data": made_at.isoformat(timespec="seconds"),
        "dataLote": to_day(line.created_at).isoformat(),
        "descricao": description.partition(" de ")[0].partition(" para ")[0],
        "numeroDocumento": "Pix" if line.end_to_end_id else "",
        "cpfCnpj": "" if line.counterparty is None else line.counterparty.tax_id,
        "descInfComplementar": description,
    }
