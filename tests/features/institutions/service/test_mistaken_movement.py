"""Returned money is recorded once: movements that prove to be our orders, and returns by payees."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import asyncpg
import pytest
from msgspec import structs

from pixconnect.features.cases.service import case as case_usecases
from pixconnect.features.cases.service.adjustment import WantedAdjustment, propose_adjustment
from pixconnect.features.cases.service.case import ShownCase
from pixconnect.features.institutions.rules.institution import InstitutionItem, InstitutionTraits, ListedRefund, ReceivedPix
from pixconnect.features.institutions.rules.rail_memory import SentReturn, name_at_institution
from pixconnect.features.institutions.service import inquiry
from pixconnect.features.institutions.service.refund import record_returns
from pixconnect.features.institutions.service.returns import EVERY, follow_sent_returns
from pixconnect.features.institutions.service.statement import settle_items
from pixconnect.features.institutions.service.statement_sweep import note_listed, record_listed
from pixconnect.features.institutions.service.sweep import sweep
from pixconnect.features.institutions.tables import returns as return_store
from pixconnect.features.movements import service as movement_usecases
from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.rules.rail import MovementReport
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import to_day
from support.account_shop import Shop, make_owner, open_cut_shop, read_again
from support.books import check_books
from support.cut_connections import Cut
from support.fake_institution import FakeInstitution
from support.operators import as_operator
from support.postgres import Addresses
from support.proposals import confirm_waiting
from support.records import OUTSIDE_ISPB, own_key
from support.service import Service, read_funds

Act = Callable[[], Awaitable[object]]


async def receive(shop: Shop, **changes: Any) -> ReceivedPix:
    await shop.allow()
    pix = await shop.receive(1000, **changes)
    shop.live.clock.advance(minutes=1)
    return pix


async def tell_line(shop: Shop, **changes: Any) -> None:
    """The statement has a line of 3.00 that left."""
    at = shop.live.clock.real_now()
    line = InstitutionItem(item_id="L1", day=to_day(at), settled_at=at, direction="OUT", amount_cents=300, kind="by_hand")
    line = structs.replace(line, **changes)
    await shop.tell_lines(line)


async def ask_in_doubt(shop: Shop, pix: ReceivedPix) -> Refund:
    """A refund that the institution has under way, under its own network id."""
    shop.there.refund_status = "under_way"
    refund = await shop.give_back(pix, 300)
    await shop.move_orders()
    return refund


async def end(shop: Shop, refund: Refund) -> str:
    await shop.move_orders(minutes=10)
    return (await refund_usecases.read_refund_by_id(shop.context, shop.house, refund.id)).status


async def funds(shop: Shop, holder_id: int | None = None) -> tuple[int, int, int]:
    caller = structs.replace(shop.house, holder_id=holder_id or shop.house.holder_id)
    balance = await ledger_usecases.read_balance(shop.context, caller)
    return balance.available_cents, balance.reserved_cents, balance.deficit_cents


async def movements(service: Service) -> list[tuple[str, str, int, str | None]]:
    told = "select kind, direction, amount_cents, opposite_of from movement order by direction desc"
    return [tuple(row) for row in await service.fetch(told)]


async def lines(service: Service) -> list[tuple[str, str]]:
    return [tuple(row) for row in await service.fetch("select joined_kind, joined_id from institution_item")]


TAKEN_BACK = [("by_hand", "OUT", 300, None), ("reversal", "IN", 300, "L1")]


@pytest.mark.parametrize("hours", [0, 20])
async def test_the_end_of_a_refund_takes_back_the_movement_that_its_item_became(shop: Shop, hours: int) -> None:
    pix = await receive(shop)
    # The database lost the refund, and the caller asks for it again.
    await tell_line(shop)
    refund = await ask_in_doubt(shop, pix)
    assert await movements(shop.live) == TAKEN_BACK[:1]
    assert await funds(shop) == (400, 300, 0)
    # It may settle a day after its debit.
    shop.live.clock.advance(hours=hours)
    shop.there.end_refunds("returned")
    assert await end(shop, refund) == "RETURNED"
    assert await movements(shop.live) == TAKEN_BACK
    assert await lines(shop.live) == [("refund", str(refund.id))]
    assert await funds(shop) == (700, 0, 0)
    await settle_items(shop.at, shop.account)
    await check_books(shop.live)


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_line_that_was_read_before_a_refund_was_made_is_another(shop: Shop, *, is_lost: bool) -> None:
    pix = await receive(shop)
    await tell_line(shop)
    if is_lost:  # it may be the same refund, which the database lost
        now = f"'{shop.live.clock.real_now() - timedelta(days=9)}'"
        lost = "insert into database_loss (reason, system_identifier, orders_count, noticed_at) values ('lost', 1, 0, {})"
        await shop.live.execute_as_owner(f"set session_replication_role = replica; {lost.format(now)}")
    shop.live.clock.advance(hours=2)
    refund = await ask_in_doubt(shop, pix)
    shop.there.end_refunds("returned")
    assert await end(shop, refund) == "RETURNED"
    await settle_items(shop.at, shop.account)
    assert (await movements(shop.live), (await funds(shop))[0]) == ((TAKEN_BACK, 700) if is_lost else (TAKEN_BACK[:1], 400))
    await tell_line(shop, item_id="L2")
    joined = [("movement", "L2" if is_lost else "L1"), ("refund", str(refund.id))]
    assert sorted(await lines(shop.live)) == joined
    await check_books(shop.live)


@pytest.mark.parametrize("kind", ["fee", "boleto", "pix"])
async def test_a_line_that_names_a_return_is_that_whatever_it_is_called(shop: Shop, kind: str) -> None:
    pix = await receive(shop)
    refund = await ask_in_doubt(shop, pix)
    await tell_line(shop, kind=kind, return_id=refund.return_id, end_to_end_id=pix.end_to_end_id)
    assert (await movements(shop.live), await lines(shop.live)) == ([], [("refund", str(refund.id))])
    shop.there.end_refunds("returned")
    assert await end(shop, refund) == "RETURNED"
    assert (await movements(shop.live), await funds(shop)) == ([], (700, 0, 0))
    await check_books(shop.live)


@pytest.mark.parametrize("is_first", [True, False])
async def test_the_line_of_a_refund_that_fails_is_a_movement(shop: Shop, *, is_first: bool) -> None:
    pix = await receive(shop)
    refund = None if is_first else await ask_in_doubt(shop, pix)
    await tell_line(shop)
    # A waiting line's sum is reserved beside the refund's, until one of both is known.
    assert (await movements(shop.live), (await funds(shop))[0]) == ((TAKEN_BACK[:1], 700) if is_first else ([], 400))
    refund = refund or await ask_in_doubt(shop, pix)
    shop.there.end_refunds("refused")
    assert await end(shop, refund) == "ERROR"
    await settle_items(shop.at, shop.account)
    assert (await movements(shop.live), await funds(shop)) == (TAKEN_BACK[:1], (700, 0, 0))
    await check_books(shop.live)


async def test_what_was_taken_of_another_holder_and_owed_there_comes_back_to_it(shop: Shop) -> None:
    sister = await make_owner(shop.live, "2")
    await shop.live.execute_as_owner(f"update holder set institution_id = {shop.account.id} where id = {sister}")
    pix = await receive(shop, key=own_key("2"))
    at = structs.replace(shop, house=structs.replace(shop.house, holder_id=sister))
    await tell_line(shop)
    refund = await ask_in_doubt(at, pix)
    assert (await funds(shop), await funds(shop, sister)) == ((0, 0, 300), (700, 300, 0))
    shop.there.end_refunds("returned")
    assert await end(at, refund) == "RETURNED"
    assert (await funds(shop), await funds(shop, sister)) == ((0, 0, 0), (700, 0, 0))
    await check_books(shop.live)


async def test_of_two_refunds_alike_one_is_the_item_and_each_item_is_counted_once(shop: Shop) -> None:
    pix = await receive(shop)
    await tell_line(shop)
    first, second = await ask_in_doubt(shop, pix), await ask_in_doubt(shop, pix)
    shop.there.end_refunds("returned")
    assert [await end(shop, each) for each in (first, second)] == ["RETURNED", "RETURNED"]
    assert await movements(shop.live) == TAKEN_BACK
    await tell_line(shop, item_id="L2")
    assert await movements(shop.live) == TAKEN_BACK
    assert sorted(await lines(shop.live)) == sorted([("refund", str(each.id)) for each in (first, second)])
    assert await funds(shop) == (400, 0, 0)
    await check_books(shop.live)


@pytest.mark.parametrize(("days", "is_first"), [(0, False), (1, False), (10, False), (1, True)])
async def test_two_lines_alike_are_two_refunds_alike_of_another_holder(shop: Shop, days: int, *, is_first: bool) -> None:
    sister = await make_owner(shop.live, "2")
    await shop.live.execute_as_owner(f"update holder set institution_id = {shop.account.id} where id = {sister}")
    pix = await receive(shop, key=own_key("2"))
    at = structs.replace(shop, house=structs.replace(shop.house, holder_id=sister))
    refunds = [] if is_first else [await ask_in_doubt(at, pix) for _ in range(2)]
    for name in ("L1", "L2"):
        await tell_line(shop, item_id=name)
    refunds = refunds or [await ask_in_doubt(at, pix) for _ in range(2)]
    shop.live.clock.advance(days=days)
    shop.there.end_refunds("returned")
    assert [await end(at, refund) for refund in refunds] == ["RETURNED", "RETURNED"]
    await settle_items(shop.at, shop.account)
    assert len(await movements(shop.live)) == (4 if is_first else 0)
    assert sorted(await lines(shop.live)) == sorted(("refund", str(refund.id)) for refund in refunds)
    assert (await funds(shop), await funds(shop, sister)) == ((0, 0, 0), (400, 0, 0))
    await check_books(shop.live)


async def test_a_line_before_the_end_of_a_refund_yields_to_the_line_that_names_it(shop: Shop) -> None:
    pix = await receive(shop)
    refund = await ask_in_doubt(shop, pix)
    shop.live.clock.advance(days=9)
    shop.there.end_refunds("returned")
    assert await end(shop, refund) == "RETURNED"
    await tell_line(shop, day=to_day(shop.live.clock.now()) - timedelta(days=8))
    await tell_line(shop, item_id="L2", return_id=refund.return_id, end_to_end_id=pix.end_to_end_id)
    assert (await movements(shop.live), await funds(shop)) == (TAKEN_BACK[:1], (400, 0, 0))
    await check_books(shop.live)


async def test_a_refund_that_was_forgotten_and_is_asked_for_again_takes_its_item_back(shop: Shop) -> None:
    pix = await receive(shop)
    keys = await return_store.read_keys(shop.context.pool, [shop.account.id])
    name = name_at_institution(keys[shop.account.id], shop.account.id, "refund", shop.house.holder_id, "r1")
    # The database was restored to before it: only the institution has it, and its statement is read first.
    await shop.there.refund(pix.end_to_end_id, name, 300)
    await tell_line(shop, kind="refund", return_id=shop.there.refunds[pix.end_to_end_id, name].return_id)
    refund = await shop.give_back(pix, 300, external_id="r1")
    await shop.move_orders()
    assert await end(shop, refund) == "RETURNED"
    assert [opposite for *_, opposite in await movements(shop.live)] == [None, "L1"]
    assert (await funds(shop), shop.there.given_back_cents) == ((700, 0, 0), 300)
    await check_books(shop.live)


def run_once(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, beside: Act, *, is_before: bool) -> None:
    """At the first call of a function, do something else, before it or while its answer is on the way."""
    real = getattr(module, name)

    async def call(*args: Any) -> Any:
        monkeypatch.setattr(module, name, real)
        if is_before:
            await beside()
        answer = await real(*args)
        if not is_before:
            await beside()
        return answer

    monkeypatch.setattr(module, name, call)


@pytest.mark.parametrize("moment", ["posting", "ending"])
async def test_an_end_and_its_line_are_counted_once(shop: Shop, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refund ends and its line is read at once: each looked for the other before the other was written."""
    pix = await receive(shop)

    async def make() -> None:
        refund = await ask_in_doubt(shop, pix)
        shop.there.end_refunds("returned")
        assert await end(shop, refund) == "RETURNED"

    if moment == "posting":
        run_once(monkeypatch, movement_usecases, "post_statement_item", make, is_before=True)
        await tell_line(shop)
    else:
        run_once(monkeypatch, return_store, "find_mistaken", lambda: tell_line(shop), is_before=False)
        await make()
    for _ in range(2):
        # After a death between the two, the next reading of the statement finds it.
        await settle_items(shop.at, shop.account)
        assert await movements(shop.live) == (TAKEN_BACK if moment == "posting" else [])
        assert [kind for kind, _ in await lines(shop.live)] == ["refund"]
        assert await funds(shop) == (700, 0, 0)
    await check_books(shop.live)


@pytest.mark.parametrize("moment", ["posting", "recording"])
async def test_a_return_and_its_line_count_once(shop: Shop, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pix = await receive(shop)
    at = shop.live.clock.real_now()
    name = "D99999004202607011500aaaaaaaaaaa"
    listed = ListedRefund(id="theirs", return_id=name, amount_cents=300, status="returned", asked_at=at, settled_at=at)
    returned = [structs.replace(pix, refunds=[listed])]
    if moment == "posting":
        read = partial(record_returns, shop.at, shop.account, returned)
        run_once(monkeypatch, movement_usecases, "post_statement_item", read, is_before=True)
        await tell_line(shop, return_id=name)
    else:

        async def tell() -> None:
            with pytest.raises(errors.ServiceUnavailable):
                await tell_line(shop, return_id=name)

        run_once(monkeypatch, return_store, "find_mistaken", tell, is_before=False)
    for _ in range(2):
        await record_returns(shop.at, shop.account, returned)
        await settle_items(shop.at, shop.account)
        assert await movements(shop.live) == (TAKEN_BACK if moment == "posting" else [])
        assert [kind for kind, _ in await lines(shop.live)] == ["refund"]
        assert await funds(shop) == (700, 0, 0)
    await check_books(shop.live)


@pytest.mark.long
@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_lost_commit_has_one_effect(database: Addresses, live: Service, cut: Cut) -> None:
    async with open_cut_shop(database, live.clock) as (wire, shop):
        pix = await receive(shop)
        await tell_line(shop)
        refund = await ask_in_doubt(shop, pix)
        shop.there.end_refunds("returned")
        # The list has the end, and the first commit is that of the end.
        wire.cuts = [cut]
        await record_returns(shop.at, shop.account, [structs.replace(pix, refunds=list(shop.there.refunds.values()))])
        assert wire.cuts_count == 1
        assert await end(shop, refund) == "RETURNED"
        assert await movements(shop.live) == TAKEN_BACK
        assert await funds(shop) == (700, 0, 0)
        await check_books(shop.live)


async def test_a_movement_stays_of_its_account_wherever_its_holder_lies_later(shop: Shop) -> None:
    pix = await receive(shop)
    await tell_line(shop)
    refund = await ask_in_doubt(shop, pix)
    moved = f"update holder set institution_id = null where id = {shop.house.holder_id}"
    await shop.live.execute_as_owner(f"alter table holder disable trigger user; {moved}")
    shop.there.end_refunds("returned")
    assert await end(shop, refund) == "RETURNED"
    assert {row["institution_id"] for row in await shop.live.fetch("select * from movement")} == {shop.account.id}
    assert await lines(shop.live) == [("refund", str(refund.id))]
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="never changed"):
        await shop.live.execute_as_owner("update movement set institution_id = null")


async def test_an_item_of_an_account_is_one_movement_whoever_of_its_holders_has_it(shop: Shop) -> None:
    sister = await make_owner(shop.live, "2")
    await shop.live.execute_as_owner(f"update holder set institution_id = {shop.account.id} where id = {sister}")
    shop.live.clock.advance(minutes=1)
    await tell_line(shop)
    shared = (await shop.live.fetch("select * from movement"))[0]
    report = MovementReport(
        report_id="again", item_id=shared["item_id"], party=(await shop.context.directory.read_account(sister)).party,
        kind="by_hand", direction="OUT", amount_cents=300, end_to_end_id=None, description=None,
        settled_at=shared["network_settled_at"],
    )  # fmt: skip
    with pytest.raises(errors.InternalError):
        await movement_usecases.post_statement_item(shop.at, sister, report)
    assert len(await movements(shop.live)) == 1


@pytest.mark.parametrize(("days", "alike_count"), [(0, 1), (1, 1), (1, 2)])
async def test_a_pix_listed_after_its_line_takes_back_the_movement(shop: Shop, days: int, alike_count: int) -> None:
    await shop.read()
    shop.live.clock.advance(days=1)
    paid_at = shop.live.clock.real_now()
    await note_listed(shop.at, shop.account, (to_day(paid_at), to_day(paid_at)))
    shop.live.clock.advance(days=days)
    on = to_day(shop.live.clock.real_now())
    credit = InstitutionItem(item_id="C", day=on, settled_at=None, direction="IN", amount_cents=500, kind="other")
    shop.live.clock.advance(days=1)
    await shop.read()
    await shop.tell_lines(*[structs.replace(credit, item_id=f"C{number}") for number in range(alike_count)])
    await note_listed(shop.at, shop.account, (to_day(paid_at), on))
    assert (await funds(shop))[0] == 500 * alike_count
    shop.pay(500, settled_at=paid_at)
    await sweep(shop.at, shop.there, "wide")
    # Of several that look alike a person finds out.
    is_taken = alike_count == 1
    assert (await funds(shop))[0] == 500 * (alike_count + (not is_taken))
    assert ("transfer" in dict(await lines(shop.live)), bool(await look(shop))) == (is_taken, not is_taken)
    await check_books(shop.live)


class Returns:
    def __init__(self) -> None:
        self.listed: list[SentReturn] = []
        self.asked: list[tuple[datetime, datetime]] = []

    async def list_returns(self, since: datetime, until: datetime) -> AsyncIterator[Sequence[SentReturn]]:
        self.asked.append((since, until))
        yield self.listed


@pytest.fixture
def there(live: Service) -> FakeInstitution:
    opened = FakeInstitution(live.clock, InstitutionTraits(sends=("KEY",)))
    opened.sent_returns = Returns()
    return opened


def returns_of(shop: Shop) -> Returns:
    assert isinstance(shop.there.sent_returns, Returns)
    return shop.there.sent_returns


async def send(shop: Shop, amount_cents: int = 2000) -> Transfer:
    """A transfer that settled there, as it is recorded now."""
    await shop.allow_sending()
    await shop.receive(amount_cents)
    sent = await shop.send(amount_cents)
    await shop.move_orders()
    await shop.move_orders(minutes=1)
    return await read_again(shop, sent)


def give_back(shop: Shop, name: str, amount_cents: int, number: int = 1) -> SentReturn:
    return_id, at = f"D{OUTSIDE_ISPB}202607011600{number:011}", shop.live.clock.real_now()
    returned = SentReturn(end_to_end_id=name, return_id=return_id, amount_cents=amount_cents, settled_at=at)
    returns_of(shop).listed.append(returned)
    shop.there.balance_cents += amount_cents
    return returned


async def follow(shop: Shop) -> None:
    shop.live.clock.advance(seconds=EVERY.total_seconds() + 1)
    await follow_sent_returns(shop.at, shop.opened)


async def list_returned(shop: Shop) -> list[tuple[Any, ...]]:
    told = "select holder_id, amount_cents, status from refund where flow = 'IN' order by amount_cents"
    return [tuple(row) for row in await shop.live.fetch(told)]


async def test_what_a_payee_gives_back_is_recorded_once_however_often_it_is_listed(shop: Shop) -> None:
    sent = await send(shop)
    for number, cents in ((1, 700), (2, 1300)):
        give_back(shop, sent.network_id or "", cents, number)
    for _ in range(3):
        await follow(shop)
    assert await list_returned(shop) == [(shop.house.holder_id, cents, "RETURNED") for cents in (700, 1300)]
    assert await read_funds(shop.live, shop.house) == (2000, 0)
    await check_books(shop.live)
    # An item with another amount, or beyond the whole, is for a person.
    returns_of(shop).listed[0] = structs.replace(returns_of(shop).listed[0], amount_cents=600)
    give_back(shop, sent.network_id or "", 1, 3)
    await follow(shop)
    assert await read_funds(shop.live, shop.house) == (2000, 0)
    assert set(await kept_usecases.count_open(shop.context.pool)) == {"changed_repeat", "cannot_be_refused"}


async def test_they_are_read_for_a_hundred_days_only_where_something_was_sent(shop: Shop) -> None:
    await shop.read()
    await follow(shop)
    assert returns_of(shop).asked == []
    await send(shop)
    await follow(shop)
    await follow_sent_returns(shop.at, shop.opened)
    assert [until - since for since, until in returns_of(shop).asked] == [timedelta(days=100)]
    await follow_sent_returns(shop.at, shop.opened, is_called=True)
    assert len(returns_of(shop).asked) == 2


async def test_the_return_of_a_pix_that_a_person_sent_there_goes_to_the_house(shop: Shop) -> None:
    await send(shop)
    give_back(shop, f"E{OUTSIDE_ISPB}202607011500{7:011}", 250)
    for _ in range(2):
        await follow(shop)
    assert [row[:3] for row in await movements(shop.live)] == [("reversal", "IN", 250)]
    assert await read_funds(shop.live, shop.house) == (250, 0)
    await check_books(shop.live)


async def test_while_an_order_has_no_name_there_nothing_is_taken_for_another_ones(shop: Shop) -> None:
    await send(shop)
    shop.there.send_status = "under_way"
    shop.there.tells_codes = True
    await shop.receive(100)
    await shop.send(100)
    await shop.move_orders()
    give_back(shop, f"E{OUTSIDE_ISPB}202607011500{8:011}", 50)
    await follow(shop)
    assert await shop.live.fetch("select from movement") == []


async def test_a_sent_pix_is_asked_about_by_its_name_with_what_was_given_back(shop: Shop) -> None:
    sent = await send(shop)
    name = sent.network_id or ""
    returned = give_back(shop, name, 700)
    (there,) = shop.there.sent.values()
    shop.there.sent[there.name] = structs.replace(there, returns=[returned])
    for asked in (name, sent.end_to_end_id):
        says = await inquiry.ask(as_operator(shop.context), shop.at, shop.opened, asked)
        assert says.sent is not None
        assert says.order is not None
        assert (says.is_unknown, says.lists_returns, says.sent.status) == (False, True, "settled")
        assert (says.order.id, says.order.returned_cents) == (sent.id, 700)
    assert await read_funds(shop.live, shop.house) == (700, 0)
    shop.there.sent.clear()
    says = await inquiry.ask(as_operator(shop.context), shop.at, shop.opened, name)
    assert (says.is_unknown, says.order is not None) == (True, True)


async def tell(shop: Shop, **changes: Any) -> None:
    """The institution's statement has a line of it, two days ago."""
    at = shop.live.clock.now()
    item = InstitutionItem(item_id="L1", day=to_day(at), settled_at=at, direction="IN", amount_cents=700, kind="refund")
    await record_listed(shop.at, shop.account, [structs.replace(item, **changes)])
    await note_listed(shop.at, shop.account, (to_day(at), to_day(at)))
    await settle_items(shop.at, shop.account)


async def look(shop: Shop) -> list[ShownCase]:
    await case_usecases.look_for_cases(shop.live.context)
    return await case_usecases.list_cases(shop.live.context, kind="day")


async def record(shop: Shop, case_id: int, returns: str | None = None) -> None:
    wanted = WantedAdjustment(case_id=case_id, kind="found", returns=returns, line="L1")
    proposal = await propose_adjustment(as_operator(shop.live.context, "ana"), wanted)
    with pytest.raises(errors.Forbidden):
        await confirm_waiting(as_operator(shop.live.context, "ana"), shop.live.context, "loja", "adjust")
    await confirm_waiting(as_operator(shop.live.context, "bia"), shop.live.context, "loja", "adjust", proposal.code)


@pytest.mark.parametrize("is_named", [True, False])
async def test_two_operators_record_a_line_that_no_list_has(shop: Shop, *, is_named: bool) -> None:
    sent = await send(shop)
    # On the day on which the books began a line may or may not be in the opening balance.
    shop.live.clock.advance(days=1)
    named = {"end_to_end_id": sent.network_id} if is_named else {"return_id": f"D{OUTSIDE_ISPB}202607021600{9:011}"}
    await tell(shop, **named)
    assert await look(shop) == [], "a reading may still tell it"
    shop.live.clock.advance(days=2)
    (shown,) = await look(shop)
    assert (shown.case.amount_cents, "`case adjust`" in shown.case.facts) == (700, True)
    if not is_named:
        with pytest.raises(errors.BadRequest, match="returns: the line names no Pix"):
            await record(shop, shown.case.id)
    with pytest.raises(errors.BadRequest, match="returns: no transfer"):
        await record(shop, shown.case.id, "E" + "0" * 31)
    await record(shop, shown.case.id, None if is_named else sent.network_id)
    assert await list_returned(shop) == [(shop.house.holder_id, 700, "RETURNED")]
    assert await read_funds(shop.live, shop.house) == (700, 0)
    assert await look(shop) == []
    assert await shop.live.fetchval("select joined_kind from institution_item") == "refund"
    with pytest.raises(errors.BadRequest, match="whose case is open"):
        await record(shop, shown.case.id)
    await check_books(shop.live)


async def test_a_line_gives_back_no_more_than_what_was_sent(shop: Shop) -> None:
    sent = await send(shop, 600)
    shop.live.clock.advance(days=1)
    await tell(shop, end_to_end_id=sent.network_id)
    shop.live.clock.advance(days=2)
    (shown,) = await look(shop)
    with pytest.raises(errors.BadRequest, match="returns: 600 cents of the transfer were not given back"):
        await record(shop, shown.case.id)
