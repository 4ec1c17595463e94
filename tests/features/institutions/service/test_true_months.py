"""A month at each kind of bank, through the use cases with a real database: its books equal those of ``PaperReader``.

``tests/features/institutions/rules/test_true_months.py`` judges thousands of months by that reader.
"""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
from hypothesis import strategies as st
from msgspec import structs

from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.service import day as day_usecases
from pixconnect.features.institutions.service import statement as statement_usecases
from pixconnect.kernel.flows import incoming
from pixconnect.platform.base.clock import to_day
from support.account_shop import note_read, open_shop
from support.bank_simulator import FIRST_ON, OPENING_CENTS, Movement, at_hour
from support.books import check_books
from support.fake_institution import FakeInstitution
from support.operators import as_operator
from support.paper_reader import PaperReader
from support.postgres import Addresses, make_live
from support.service import Service, credit_report, open_service
from support.true_months import KINDS, Books, Step, choose_story, kinds, stories

NO_LIMITS: Final[dict[str, Any]] = dict(transfer_limit_cents=None, day_limit_cents=None, night_limit_cents=None)


class Reader:
    """A live service with one account, whose books begin in the evening before the first day."""

    def __init__(self, service: Service, account: InstitutionAccount) -> None:
        self._service, self._account = service, account

    async def take(self, step: Step) -> None:
        self._service.clock.real = step.at
        since = None
        if step.learned is not None:
            await self._learn(step.learned)
        if step.file is not None:
            operator = as_operator(self._service.context)
            since = (await statement_usecases.record_file(operator, "loja", step.file)).first_on
        await statement_usecases.settle_items(self._service.context, self._account, since)

    async def _learn(self, pix: Movement) -> None:
        report = structs.replace(
            credit_report(self._service, amount_cents=pix.cents, end_to_end_id=pix.name, report_id=pix.name),
            reported_at=pix.settled_at,
        )
        assert (await incoming.receive_credit(self._service.context, report)).refusal_code is None
        # The records of an account's own rail.
        await self._service.execute_as_owner(
            f"update transfer set institution_id = {self._account.id} where institution_id is null"
        )

    async def read_books(self) -> Books:
        context = self._service.context
        posted = await self._service.fetch(
            "select network_settled_at, case direction when 'IN' then amount_cents else -amount_cents end as cents"
            " from movement as made where status = 'POSTED' and kind <> 'opening_balance' and opposite_of is null"
            " and not exists (select from movement as opposite where opposite.opposite_of = made.item_id)"
            " and item_id not like 'yield:%'"
        )
        # A redemption whose application may be missing waits, and returns nothing until then.
        invested = await self._service.fetch(
            "select day, case direction when 'IN' then amount_cents else -amount_cents end as cents from institution_item"
            " where joined_kind = 'investment' or waits in ('could_be_ours', 'not_yet_read') and text like 'RESGATE%'"
        )
        days = await day_usecases.list_days(context, self._account, to_day(context.clock.now()), count=60)
        return Books(
            booked=Counter((to_day(row["network_settled_at"]), row["cents"]) for row in posted)
            + Counter((row["day"], row["cents"]) for row in invested),
            proven={
                shown.day: shown.closing_cents
                for shown in days
                if shown.state in ("closed", "closed_with_cases") and shown.closing_cents is not None
            },
        )


@pytest.fixture
async def reader(database: Addresses) -> AsyncIterator[tuple[Reader, Service]]:
    await make_live(database)
    async with open_service(database, is_sandbox=False, has_rail=False) as service:
        service.clock.real = at_hour(FIRST_ON, -1)
        there = FakeInstitution(service.clock)
        there.balance_cents = OPENING_CENTS
        account = (await open_shop(service, there)).account
        await note_read(service.context.pool, account.id)
        yield Reader(service, account), service


@pytest.mark.long
@pytest.mark.parametrize("name", [*KINDS, "mixed"])
async def test_the_database_holds_what_paper_holds(reader: tuple[Reader, Service], name: str) -> None:
    every = kinds() if name == "mixed" else st.just(KINDS[name])
    # An order that leaves would need a rail beside the account.
    story = choose_story(every.flatmap(lambda kind: stories(structs.replace(kind, knows_orders=False), days_max=7)))
    paper = PaperReader()
    for step in story.list_steps():
        paper.take(step)
        await reader[0].take(step)
        wanted, found = paper.read_books(step.at), await reader[0].read_books()
        assert (found.booked, found.proven) == (wanted.booked, wanted.proven)
    await check_books(reader[1])
