"""The bank's balance is compared with the books while both change: over TLS, at a simulated bank, with a test's clock."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
from msgspec import Struct

from pixconnect.features.cases.rules import Case
from pixconnect.features.cases.service import case as case_usecases
from pixconnect.features.institutions.service.comparison import BalanceComparisons
from pixconnect.platform.base.clock import to_day
from support import postgres
from support.faces import Bank
from support.service import no_fence, read_funds
from support.two_books import MonthClock, TwoBooks, open_two_books

pytestmark = pytest.mark.journey

# Slow, because Sicoob allows one request a second.
FACES = ("efi", "inter", "woovi", pytest.param("sicoob", marks=pytest.mark.long))


class Watched(Struct, frozen=True, kw_only=True):
    books: TwoBooks
    comparisons: BalanceComparisons

    async def compare(self) -> list[Case]:
        """One comparison as the worker makes it, between two of its rounds; returns the account's cases."""
        here = self.books.here
        self.books.clock.advance(minutes=11)
        await here.work()
        for minutes in (2, 0):
            opened = await here.accounts.find(here.account.id)
            assert opened is not None
            await self.comparisons.compare(here.at(opened), opened, no_fence, ())
            self.books.clock.advance(minutes=minutes)
            await here.work()
        return [one.case for one in await case_usecases.list_cases(here.context, with_ended=True, kind="account")]

    async def wait(self, **span: int) -> None:
        self.books.clock.advance(**span)
        for _ in range(3):
            await self.books.here.work()
            self.books.clock.advance(minutes=2)


@asynccontextmanager
async def watching(
    bank: Bank, clock: MonthClock, database: postgres.Addresses, face: str, folder: Path
) -> AsyncIterator[Watched]:
    # Ten in the morning, so that an evening passes before a day is over.
    clock.advance(hours=22)
    async with open_two_books(bank, clock, database, face, folder) as books:
        await books.here.work()
        clock.advance(minutes=5)
        watched = Watched(books=books, comparisons=BalanceComparisons())
        # Ten minutes pass after the worker first sees an account.
        assert await watched.compare() == await watched.compare() == []
        yield watched


async def test_what_only_the_bank_knows_is_one_case_that_evening_and_ends_with_the_file_of_the_day(
    bank: Bank, clock: MonthClock, new_database: postgres.Addresses, tmp_path: Path
) -> None:
    async with watching(bank, clock, new_database, "efi", tmp_path) as watched:
        await watched.books.there.send(902)
        await watched.books.there.end(Random(1), share_rejected=0)  # noqa: S311  it must come again
        assert await watched.compare() == [], "one comparison alone says nothing"
        for _ in range(3):
            (case,) = await watched.compare()
            assert (case.amount_cents, case.opened_count, case.ended_at) == (-902, 1, None)
        assert "open orders" in case.facts
        # Efi writes its file of the day, with the line.
        await watched.wait(hours=26)
        (case,) = await watched.compare()
        assert (case.ended_as, case.opened_count) == ("recorded", 1)


@pytest.mark.parametrize("face", ["efi", "inter"])
async def test_a_return_that_no_reading_has_told_is_read_before_it_becomes_a_case(
    bank: Bank, clock: MonthClock, new_database: postgres.Addresses, tmp_path: Path, face: str
) -> None:
    async with watching(bank, clock, new_database, face, tmp_path) as watched:
        paid = await bank.be_paid(None, 5000)
        await watched.wait(hours=100)
        # After three days returns are read once a day.
        await watched.wait(hours=2)
        await watched.books.there.give_back(paid, 902)
        await watched.books.there.end(Random(3), share_rejected=0)  # noqa: S311  it must come again
        for _ in range(3):
            assert await watched.compare() == []
        if face == "inter":
            # Its line explains the difference until the day's reading of returns.
            await watched.wait(hours=24)
        rows = await watched.books.here.live.fetch("select amount_cents, status from refund where made_by = 'institution'")
        assert [tuple(row) for row in rows] == [(902, "RETURNED")]


async def test_what_payees_give_back_of_transfers_over_efi_is_in_the_books_within_the_hour_and_its_day_closes(
    bank: Bank, clock: MonthClock, new_database: postgres.Addresses, tmp_path: Path
) -> None:
    async with watching(bank, clock, new_database, "efi", tmp_path) as watched:
        here, there = watched.books.here, watched.books.there
        sent = await here.send(2000, "to-joana")
        assert sent is not None
        await there.send(300)
        await here.work()
        await there.end(Random(4), share_rejected=0)  # noqa: S311  it must come again
        await watched.wait(minutes=5)
        (ours, by_hand) = await bank.service.fetch(
            "select end_to_end_id from transfer where direction = 'OUT' and status = 'CONFIRMED' order by amount_cents desc"
        )
        for cents in (700, 1300):
            await there.return_sent(ours["end_to_end_id"], cents)
        await there.return_sent(by_hand["end_to_end_id"], 120)
        await watched.wait(minutes=61)
        rows = await here.live.fetch("select transfer_id, amount_cents, status from refund where flow = 'IN'")
        assert sorted(map(tuple, rows)) == [(sent.id, 700, "RETURNED"), (sent.id, 1300, "RETURNED")]
        assert here.house is not None
        # Only the file of the day has the person's Pix; its return is there already.
        assert await read_funds(here.live, here.house) == (1_000_000 + 120, 0)
        await watched.wait(hours=24)
        assert await read_funds(here.live, here.house) == (1_000_000 + 120 - 300, 0)
        day, _ = await here.list_days(to_day(clock.real))
        assert day.state == "closed"
