"""Days as institutions count them, dates of Sao Paulo, in bodies and in queries; and the statement of some days."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from typing import Final

from pixconnect.api.faces.refusals import NamedRefusal
from pixconnect.api.frame.operation import Services
from pixconnect.api.standard.frame import Asked
from pixconnect.api.standard.violations import Parameters
from pixconnect.domain.frame.civil_time import SAO_PAULO
from pixconnect.domain.money.statement import Statement, StatementLine
from pixconnect.usecases.reading import statement as statement_usecases

DAYS: Final = ("dataInicio", "dataFim")
LINES_MAX: Final = 10_000
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_SPAN_MAX: Final = timedelta(days=90)


def instants_of(first: date, last: date) -> tuple[datetime, datetime]:
    """The first and the last instant of these days."""
    return datetime.combine(first, time(0), SAO_PAULO), datetime.combine(last, time.max, SAO_PAULO)


def parse_day(text: str | None) -> date | None:
    """A date, AAAA-MM-DD; ``None`` where it is none."""
    try:
        day = None if text is None or not _DAY.fullmatch(text) else date.fromisoformat(text)
    except ValueError:
        return None
    # The first and last years have no midnights in every zone.
    return day if day is not None and date.min.year < day.year < date.max.year else None


def read_days(parameters: Parameters, values: Mapping[str, str]) -> tuple[date, date] | None:
    """``dataInicio`` and ``dataFim``, at most 90 days apart; ``None`` where there is a row about them."""
    days = {name: parse_day(values.get(name)) for name in DAYS}
    for name, day in days.items():
        if day is None:
            parameters.refuse(name, "deve ser um dia, AAAA-MM-DD" if name in values else "é obrigatório")
    first, last = days.values()
    if first is None or last is None:
        return None
    if not first <= last <= first + _SPAN_MAX:
        return parameters.refuse("dataFim", "não pode ser anterior a dataInicio, nem mais de 90 dias depois")
    return first, last


async def read_statement(
    services: Services, request: Asked, days: tuple[date, date], too_many: str
) -> tuple[Statement, list[StatementLine]]:
    """The statement of these days, and its lines, the oldest first; ``too_many`` begins what is said of too many days."""
    context = services.context
    statement = await statement_usecases.open_statement(context, request.caller, *instants_of(*days), language="pt")
    if statement.extent.lines_count > LINES_MAX:
        raise NamedRefusal("LINES", f"{too_many} mais de {LINES_MAX} linhas; peça menos dias")
    parts = statement_usecases.read_parts(context, statement)
    return statement, [line async for part in parts for line in part if not request.query.hides(line.created_at)]
