"""An installation of two cells in live mode, in this process, whose operators add accounts at institutions in both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Final

from msgspec import Struct, structs

from pixconnect.assembly.institutions import read_text_file
from pixconnect.domain.frame.cell import HOME
from pixconnect.domain.identity.access import SCOPES, Caller
from pixconnect.domain.institutions.account import InstitutionAccount
from pixconnect.domain.institutions.institution import InstitutionTraits
from pixconnect.usecases.frame.cell_directories import CellDirectories
from pixconnect.usecases.frame.cells import Cells, UnreachableCells
from pixconnect.usecases.frame.operator import Operator, OperatorContext
from pixconnect.usecases.institutions import account as account_usecases
from pixconnect.usecases.institutions.account_naming import CellAccounts
from pixconnect.usecases.institutions.open_accounts import OpenAccounts
from pixconnect.usecases.money import holder as holder_usecases
from support.account_shop import NO_LIMITS, Shop
from support.cells import NAME, NUMBER, add_cell
from support.fake_institution import OWNER_TAX_ID, FakeInstitution, a_description
from support.operators import as_operator
from support.postgres import Addresses
from support.records import a_new_holder
from support.service import FakeClock, Service, open_service

_serial: Final = count(1)


class LiveCells(Struct, kw_only=True):
    services: Mapping[int, Service]
    operators: Mapping[int, Operator]
    there: Mapping[int, FakeInstitution]
    """An institution for each cell, which knows nothing of the other's."""
    away: set[int]
    """The cells that give no answer."""

    async def open_owner(self, number: int, account_number: str) -> int:
        """A holder in a cell, who has no account yet."""
        new = structs.replace(a_new_holder(account_number=account_number), tax_id=OWNER_TAX_ID, **NO_LIMITS)
        return (await holder_usecases.create_holder(self.operators[number], new)).id

    async def add(self, number: int, name: str, **changes: Any) -> InstitutionAccount:
        """Add an account in the cell of its house; with ``ALONE`` as its ``others`` none of another cell is looked at."""
        others = changes.pop("others", None) or self.compare_in(number)
        house = changes.pop("house", None) or await self.open_owner(number, f"H{next(_serial)}")
        return await account_usecases.add_account(
            self.operators[number],
            self.there[number].open,
            name,
            a_description(**changes),
            house,
            others=others,
        )

    async def open_shop(self, number: int, name: str, key: str, **changes: Any) -> Shop:
        """A house on an account in a cell, which has this key and may send, in a process that serves both cells."""
        service, there = self.services[number], self.there[number]
        account = await self.add(number, name, keys=[key], **changes)
        await holder_usecases.add_pix_key(self.operators[number], account.house_id, "EMAIL", key)
        pool, box, clock = service.context.pool, service.context.secret_box, service.context.clock
        cells = Cells(self.services[HOME].context, UnreachableCells())
        cells.add(NUMBER, self.services[NUMBER].context)
        directories = CellDirectories()
        directories.cells = cells
        context = structs.replace(
            service.context,
            institutions=OpenAccounts(pool, box, there.open, clock.monotonic_s),
            directories=directories,
        )
        house = Caller(client_id="test", holder_id=account.house_id, scopes=frozenset(SCOPES))
        shop = Shop(live=service, there=there, account=account, context=context, house=house)
        await shop.allow_sending()
        return shop

    def compare_in(self, number: int) -> CellAccounts:
        """With the accounts of the other cells, of which some may be away."""

        async def ask_others(ask: Callable[[OperatorContext], Awaitable[None]]) -> Mapping[str, str]:
            missing = dict[str, str]()
            for other, operator in self.operators.items():
                if other in self.away:
                    missing[NAME if other == NUMBER else "home"] = "the database cannot be reached"
                elif other != number:
                    await ask(operator)
            return missing

        return CellAccounts(ask_others=ask_others, read_file=read_text_file)


@asynccontextmanager
async def open_live_cells(
    home: Addresses, second: Addresses, clock: FakeClock | None = None, *, secret_key: bytes | None = None
) -> AsyncIterator[LiveCells]:
    await add_cell(home, second, mode="live")
    clock = clock or FakeClock()
    rules = dict(clock=clock, secret_key=secret_key, is_sandbox=False, has_rail=False)
    async with open_service(home, **rules) as here, open_service(second, cell=NUMBER, **rules) as there:  # type: ignore[arg-type]
        yield LiveCells(
            services={HOME: here, NUMBER: there},
            operators={HOME: as_operator(here.context), NUMBER: as_operator(there.context, home=here.context)},
            there={
                number: FakeInstitution(clock, InstitutionTraits(sends=("KEY", "MANUAL"))) for number in (HOME, NUMBER)
            },
            away=set(),
        )
