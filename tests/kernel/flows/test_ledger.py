"""The ledger against a model of the money: random deeds of two holders, in groups, with the clock going either way."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from itertools import count
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from pixconnect.features.movements.service import receive_movement
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.flows.settlement import Ending, GivenUp, end_orders
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.listing import Span
from pixconnect.kernel.rules.rail import Abilities, Rejected, Settled
from pixconnect.kernel.rules.refund import RefundRequest
from pixconnect.kernel.rules.transfer import AccountTransferRequest, KeyTransferRequest, TransferRequest, TransferView
from pixconnect.platform.base import errors
from support.books import check_books
from support.postgres import Addresses
from support.records import outside_party, own_key
from support.service import Service, credit_report, movement_report, open_holder, open_service


async def test_a_deposit_raises_available_and_is_a_transaction(service: Service, caller: Caller) -> None:
    service.clock.advance(seconds=1)
    made = await ledger_usecases.deposit(service.context, caller.holder_id, 25)
    balance = await ledger_usecases.read_balance(service.context, caller)
    assert (balance.available_cents, balance.current_cents, balance.modified_at) == (1_000_025, 1_000_025, made.created_at)
    page = await ledger_usecases.list_transactions(service.context, caller, Span(page_size=1))
    (newest,) = page.items
    assert (newest.id, newest.amount_cents, newest.direction, page.total_count) == (made.id, 25, "IN", 2)


async def test_a_holder_who_may_not_deposit_does_not(service: Service, caller: Caller) -> None:
    await service.set_holder(caller, may_deposit=False)
    with pytest.raises(errors.HolderBlocked):
        await ledger_usecases.deposit(service.context, caller.holder_id, 1)


async def test_nobody_has_no_balance(service: Service) -> None:
    with pytest.raises(errors.NotFound):
        await ledger_usecases.read_balance(service.context, Caller(client_id="x", holder_id=404, scopes=frozenset()))


_account_numbers = count(100)

Deed = tuple[str, int, int, int]  # the operation, its holder, the amount, and an earlier operation
DEEDS = st.tuples(
    st.sampled_from(
        ["deposit", "receive", "send", "book", "refund", "settle", "reject", "give up", "clock", "move in", "move out"]
    ),
    st.sampled_from([0, 1]),
    st.sampled_from([1, 7, 50, 100, 300]),
    st.integers(0, 30),
)


class Model:
    """The expected balances of two holders, by the simplest means."""

    def __init__(self, service: Service, account_numbers: list[str]) -> None:
        self.service = service
        self.account_numbers = account_numbers
        self.holders: list[Caller] = []
        self.available = [500, 500]
        self.reserved = [0, 0]
        self.owed = [0, 0]
        self.open_orders: list[tuple[str, int, int]] = []
        self.received: list[tuple[str, int, int | None]] = []
        self.items: dict[tuple[int, str], str | None] = {}

    async def open(self) -> None:
        for account_number in self.account_numbers:
            self.holders.append(await open_holder(self.service, account_number=account_number, funds_cents=500))

    async def do(self, deed: Deed) -> None:
        what, who, amount_cents, which = deed
        context, caller = self.service.context, self.holders[who]
        match what:
            case "deposit":
                await ledger_usecases.deposit(context, caller.holder_id, amount_cents)
                self.add(who, amount_cents)
            case "receive":
                report = credit_report(self.service, amount_cents=amount_cents, account_number=self.account_numbers[who])
                await receive_credit(context, report)
                self.add(who, amount_cents)
                self.received.append((report.end_to_end_id, who, None))
            case "send":
                await self.send(who, amount_cents)
            case "book":
                key = own_key(self.account_numbers[1 - who])
                to_other = KeyTransferRequest(amount_cents=amount_cents, key=key, key_type="EMAIL")
                view = await self.try_to_send(who, to_other)
                if view is not None:
                    self.available[who] -= amount_cents
                    self.add(1 - who, amount_cents)
                    self.received.append((view.transfer.end_to_end_id, 1 - who, who))
            case "refund" if self.received:
                await self.refund(*self.received[which % len(self.received)], amount_cents)
            case "settle" | "reject" | "give up" if self.open_orders:
                name, who, amount_cents = self.open_orders.pop(which % len(self.open_orders))
                settled = Settled(settled_at=datetime(2026, 1, 1, tzinfo=UTC))
                endings: dict[str, Ending] = {"settle": settled, "reject": Rejected(code="AC03", reason="no")}
                # Its time is over, in spite of moves of the clock.
                await context.pool.execute("update open_order set give_up_at = '2000-01-01T00:00:00Z' where name = $1", name)
                await end_orders(context, [(name, endings.get(what, GivenUp()))] * 2)
                self.reserved[who] -= amount_cents
                self.add(who, 0 if what == "settle" else amount_cents)
            case "move in" | "move out":
                await self.move(who, "IN" if what == "move in" else "OUT", amount_cents, f"item {which}")
            case "clock":
                offset_us = (which - 15) * 1_000_000
                await context.pool.execute("update clock set offset_us = offset_us + $1", offset_us)

    async def send(self, who: int, amount_cents: int) -> None:
        request = AccountTransferRequest(amount_cents=amount_cents, credit_party=outside_party())
        view = await self.try_to_send(who, request)
        if view is not None:
            self.reserve(view.transfer.end_to_end_id, who, amount_cents)

    async def move(self, who: int, direction: Literal["IN", "OUT"], amount_cents: int, item_id: str) -> None:
        report = movement_report(self.service, item_id, direction=direction, amount_cents=amount_cents)
        party = credit_report(self.service, account_number=self.account_numbers[who]).credit_party
        answer = await receive_movement(self.service.context, structs.replace(report, party=party))
        # The first report of an item counts, even if later ones differ.
        if (who, item_id) in self.items:
            assert answer.refusal_code == self.items[who, item_id]
            return
        is_covered = direction == "IN" or amount_cents <= self.available[who]
        can_refuse = self.service.context.policy.abilities.refuses_credits
        assert (answer.refusal_code is None) == (is_covered or not can_refuse)
        self.items[who, item_id] = answer.refusal_code
        if direction == "IN":
            self.add(who, amount_cents)
        elif answer.refusal_code is None:
            self.owed[who] += max(0, amount_cents - self.available[who])
            self.available[who] = max(0, self.available[who] - amount_cents)

    def add(self, who: int, amount_cents: int) -> None:
        """Make it available, and repay debts at once."""
        repaid_cents = min(self.owed[who], amount_cents)
        self.owed[who] -= repaid_cents
        self.available[who] += amount_cents - repaid_cents

    async def refund(self, name: str, who: int, sender: int | None, amount_cents: int) -> None:
        request = RefundRequest(end_to_end_id=name, amount_cents=amount_cents)
        try:
            refund = await refund_usecases.start_refund(self.service.context, self.holders[who], request)
        except errors.InsufficientFunds:
            assert self.available[who] < amount_cents
        except errors.RefundExceedsOriginal:
            pass  # the books' own rules judge the rest of an original
        else:
            if sender is None:
                self.reserve(refund.return_id, who, amount_cents)
            else:
                self.available[who] -= amount_cents
                self.add(sender, amount_cents)

    async def try_to_send(self, who: int, request: TransferRequest) -> TransferView | None:
        try:
            view = await transfer_usecases.start_transfer(self.service.context, self.holders[who], request)
        except errors.InsufficientFunds:
            assert self.available[who] < request.amount_cents
            return None
        assert self.available[who] >= request.amount_cents
        return view

    def reserve(self, name: str, who: int, amount_cents: int) -> None:
        self.available[who] -= amount_cents
        self.reserved[who] += amount_cents
        self.open_orders.append((name, who, amount_cents))

    async def check(self) -> None:
        for who, caller in enumerate(self.holders):
            balance = await ledger_usecases.read_balance(self.service.context, caller)
            assert (balance.available_cents, balance.reserved_cents, balance.deficit_cents) == (
                self.available[who],
                self.reserved[who],
                self.owed[who],
            )


@pytest.fixture(params=[Abilities(), Abilities(refuses_credits=False)], ids=["refusals", "no refusals"])
async def any_rail(request: pytest.FixtureRequest, database: Addresses) -> AsyncIterator[Service]:
    async with open_service(database, abilities=request.param) as opened:
        yield opened


@settings(max_examples=25)
@given(deeds=st.lists(DEEDS, min_size=25, max_size=50))
@pytest.mark.long
async def test_the_books_agree_with_the_model_whatever_is_done(any_rail: Service, deeds: list[Deed]) -> None:
    model = Model(any_rail, [str(next(_account_numbers)) for _ in range(2)])
    await model.open()
    for deed in deeds:
        await model.do(deed)
        await model.check()
    await check_books(any_rail)
