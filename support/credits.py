"""Payments that the rail reports to a service, and their results."""

from pixconnect.features.statements import service as statement_usecases
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.rail import CreditReport
from pixconnect.kernel.rules.transfer import Transfer
from support.operators import as_operator
from support.service import Service
from support.statement import EVER, read_all


async def take(service: Service, *reports: CreditReport) -> list[str | None]:
    """Report one after the other, and return the code of each refusal."""
    for report in reports:
        assert await take_reports(service.context, [report]) == 1
    return [acknowledgement.refusal_code for acknowledgement in service.rail.acknowledged[-len(reports) :]]


async def transfer_of(service: Service, caller: Caller, report: CreditReport) -> Transfer:
    view = await transfer_usecases.read_transfer_by_end_to_end_id(service.context, caller, report.end_to_end_id)
    return view.transfer


async def charge_now(service: Service, caller: Caller, charge: Charge) -> Charge:
    return await charge_usecases.read_charge_by_id(service.context, caller, charge.id)


async def funds(service: Service, caller: Caller) -> tuple[int, int, int, int]:
    """A holder's available, reserved, blocked and owed cents."""
    balance = await ledger_usecases.read_balance(service.context, caller)
    return balance.available_cents, balance.reserved_cents, balance.blocked_cents, balance.deficit_cents


async def event_names(service: Service) -> list[str]:
    return [row["name"] for row in await service.fetch("select name from event order by id")]


async def kept(service: Service) -> list[str]:
    """Kind and reason of each report that waits for an operator."""
    found = await kept_usecases.list_kept(as_operator(service.context), with_closed=False)
    return [f"{one.kind} {one.reason}" for one in found]


async def kept_reasons(service: Service) -> list[str]:
    return [row["reason"] for row in await service.fetch("select reason from kept_report order by id")]


async def suspect_blocks(service: Service) -> list[tuple[str, int]]:
    rows = await service.fetch("select state, covered_cents from block where kind = 'precautionary' order by id")
    return [tuple(row) for row in rows]


async def statement_lines(service: Service, caller: Caller) -> list[tuple[str, str, int, int]]:
    statement = await statement_usecases.open_statement(service.context, caller, *EVER)
    found = await read_all(service, statement)
    return [(line.name_kind("en"), line.direction, line.amount_cents, line.running_balance_cents) for line in found]
