"""Balance and statement as Woovi has them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct, field

from pixconnect.api.faces.frame import Face
from pixconnect.api.faces.woovi.paging import ShownPage, Slice, read_name, read_slice
from pixconnect.api.frame.operation import Reply
from pixconnect.api.frame.services import Services
from pixconnect.api.standard.frame import Asked
from pixconnect.api.standard.violations import Violations
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.clock import format_milliseconds
from pixconnect.domain.identity.access import Caller
from pixconnect.usecases.money import ledger as ledger_usecases
from pixconnect.usecases.reading import statement as statement_usecases

_EARLIEST: Final = datetime.fromisoformat("2000-01-01T00:00:00+00:00")


class SaldoEmCentavos(Struct, frozen=True, kw_only=True, rename="camel"):
    total: int
    blocked: int
    available: int
    blocked_by_security: int = 0
    blocked_by_withdraw_safety: int = 0


class ContaEmCentavos(Struct, frozen=True, kw_only=True, rename="camel"):
    account_id: str
    is_default: bool = True
    balance: SaldoEmCentavos
    tax_id: str
    official_name: str
    trade_name: str
    branch: str
    account: str
    account_name: str


class ContaLida(Struct, frozen=True, kw_only=True):
    account: ContaEmCentavos


class ContasListadas(Struct, frozen=True, kw_only=True, rename="camel"):
    page: ShownPage = field(name="pageInfo")
    accounts: Sequence[ContaEmCentavos]


class LinhaEmCentavos(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    id: str
    time: str
    description: str
    balance: float
    value: float
    kind: str = field(name="type")
    entry_id: str | None = field(default=None, name="transactionId")


async def list_accounts(face: Face, services: Services, request: Asked) -> Reply:
    """Lista as contas: há uma."""
    violations = Violations("account")
    asked = read_slice(violations, request)
    violations.raise_if_any()
    accounts = [await _read_account(services, request.caller)]
    shown = accounts[asked.skip : asked.skip + asked.limit]
    return Reply(status=200, record=ContasListadas(page=asked.describe(len(accounts)), accounts=shown))


async def get_account(face: Face, services: Services, request: Asked) -> Reply:
    """O saldo da conta."""
    account = await _read_account(services, request.caller)
    if read_name(request) != account.account_id:
        raise errors.NotFound("accountId: there is no such account")
    return Reply(status=200, record=ContaLida(account=account))


async def read_statement(face: Face, services: Services, request: Asked) -> Reply:
    """O extrato de um período, da linha mais nova à mais antiga."""
    violations = Violations("statement")
    asked = read_slice(violations, request)
    violations.raise_if_any()
    in_cents = face.choose(services, "statement_unit") == "cents"
    return Reply(status=200, record=await _read_lines(services, request.caller, asked, in_cents=in_cents))


async def _read_lines(services: Services, caller: Caller, asked: Slice, *, in_cents: bool) -> list[LinhaEmCentavos]:
    context = services.context
    begin, end = asked.start or _EARLIEST, asked.end or context.clock.now()
    statement = await statement_usecases.open_statement(context, caller, begin, max(begin, end), language="pt")
    extent = statement.extent
    last_number = extent.last_number - asked.skip
    lines = await statement_usecases.read_lines(context, statement, last_number - asked.limit + 1, last_number)
    return [
        LinhaEmCentavos(
            id=str(line.id),
            time=format_milliseconds(line.created_at),
            description=line.describe("pt"),
            balance=line.running_balance_cents if in_cents else line.running_balance_cents / 100,
            value=line.amount_cents if in_cents else line.amount_cents / 100,
            kind="CREDIT" if line.direction == "IN" else "DEBIT",
            entry_id=line.return_id or line.end_to_end_id,
        )
        for line in reversed(lines)
    ]


async def _read_account(services: Services, caller: Caller) -> ContaEmCentavos:
    balance = await ledger_usecases.read_balance(services.context, caller)
    party = (await services.context.directory.read_account(caller.holder_id)).party
    return ContaEmCentavos(
        account_id=f"{caller.holder_id:024x}",
        balance=SaldoEmCentavos(
            total=balance.available_cents + balance.reserved_cents,
            blocked=balance.reserved_cents,
            available=balance.available_cents,
        ),
        tax_id=party.tax_id,
        official_name=party.name,
        trade_name=party.name,
        branch=party.branch,
        account=party.account_number,
        account_name=party.name,
    )
