"""Received payments at an institution: each once, even from faulty lists, and a recorded one stays."""

from datetime import timedelta

import pytest
from msgspec import structs

from pixconnect.features.institutions.accounts import ACCOUNT, AccountSource
from pixconnect.features.institutions.cli import institution as institution_cli
from pixconnect.features.institutions.rules.account import Credential
from pixconnect.features.institutions.rules.institution import InstitutionItem, InstitutionUnavailable
from pixconnect.features.institutions.rules.sweep import MalformedItem, is_due
from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.features.institutions.service.statement_sweep import sweep_statement
from pixconnect.features.institutions.service.sweep import expire_account_charges, post_opening, record_page, sweep, sweep_due
from pixconnect.features.institutions.tables import day as sweep_store
from pixconnect.features.movements import tables as movement_store
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.flows.credit import CREDIT_SOURCE
from pixconnect.kernel.rules.holder import Party, describe_party
from pixconnect.platform.base.clock import to_day
from support.account_shop import Shop, make_owner, open_cut_shop, open_shop
from support.books import check_books
from support.cut_connections import Cut
from support.fake_institution import FakeInstitution, a_description
from support.operators import as_operator
from support.postgres import Addresses
from support.records import own_key
from support.service import Service, read_funds


async def read_status(shop: Shop, charge_id: int) -> str:
    return (await charge_usecases.read_charge_by_id(shop.context, shop.house, charge_id)).status


async def test_a_payment_is_credited_once_however_often_it_is_listed(shop: Shop) -> None:
    shop.pay(700)
    for _ in range(3):
        assert await shop.read() == 1
    assert await read_funds(shop.live, shop.house) == (700, 0)
    rows = await shop.live.fetch("select institution_id, network_settled_at from transfer")
    assert [tuple(row) for row in rows] == [(shop.account.id, shop.live.clock.real_now())]
    await check_books(shop.live)


async def test_a_payment_under_a_txid_pays_its_charge(shop: Shop) -> None:
    charge = await shop.charge()
    await shop.receive(txid=charge.txid)
    assert await read_status(shop, charge.id) == "APPROVED"
    await check_books(shop.live)


async def test_its_acceptance_wins_over_expiry_and_amount(shop: Shop) -> None:
    charge = await shop.charge(amount_cents=1000)
    shop.live.clock.advance(days=2)
    await shop.read()
    shop.live.clock.advance(seconds=120)
    await shop.read()
    assert await expire_account_charges(shop.at, shop.there) == 1
    assert await read_status(shop, charge.id) == "EXPIRED"
    await shop.receive(900, txid=charge.txid)
    paid = await charge_usecases.read_charge_by_id(shop.context, shop.house, charge.id)
    assert (paid.status, paid.amount_cents, paid.asked_cents) == ("APPROVED", 900, 1000)
    await check_books(shop.live)


async def test_a_second_payment_of_one_code_is_a_credit_of_its_own(shop: Shop) -> None:
    charge = await shop.charge()
    for _ in range(2):
        shop.pay(txid=charge.txid)
    await shop.read()
    assert await read_funds(shop.live, shop.house) == (2000, 0)
    rows = await shop.live.fetch("select charge_id from transfer order by charge_id nulls last")
    assert [row["charge_id"] for row in rows] == [charge.id, None]
    assert await shop.live.fetch("select from refund") == [], "nothing goes back by itself"
    await check_books(shop.live)


async def test_a_charge_expires_only_after_a_reading_that_found_no_payment(shop: Shop) -> None:
    charge = await shop.charge()
    await shop.read()
    shop.live.clock.advance(days=2)
    assert await expire_account_charges(shop.at, shop.there) == 0, "nobody has looked since its end"
    late = await shop.receive(txid=charge.txid, settled_at=shop.live.clock.real_now() - timedelta(days=1, hours=12))
    assert await expire_account_charges(shop.at, shop.there) == 0, late
    assert await read_status(shop, charge.id) == "APPROVED"


async def test_whose_a_payment_is(shop: Shop) -> None:
    sister = await make_owner(shop.live, "2")
    stranger = await make_owner(shop.live, "3")
    await shop.live.execute_as_owner(f"update holder set institution_id = {shop.account.id} where id = {sister}")
    shop.pay(1, key=own_key("2"))
    shop.pay(10, key=own_key("3"))
    shop.pay(100, key=None)
    await shop.receive(1000, key="nobody@test.example")
    rows = await shop.live.fetch("select holder_id, sum(amount_cents)::int as cents from transfer group by 1 order by 1")
    assert [tuple(row) for row in rows] == [(shop.house.holder_id, 1110), (sister, 1)], stranger


async def test_an_unknown_payer_has_what_the_contract_requires(shop: Shop) -> None:
    shop.pay(1)
    await shop.receive(2, payer=describe_party(name="Ana", tax_id="***982247**", ispb="12345678"))
    rows = await shop.live.fetch("select counterparty::jsonb as party from transfer order by amount_cents")
    assert '"tax_id": "00000000000"' in rows[0]["party"]
    assert '"name": "-"' in rows[0]["party"]
    assert '"tax_id": "***982247**"' in rows[1]["party"]


async def test_a_payment_that_changed_is_kept_and_moves_nothing(shop: Shop) -> None:
    pix = await shop.receive(100)
    # A missing item is not reported as changed.
    shop.there.received[0] = structs.replace(pix, key=None)
    await shop.read()
    shop.there.received[0] = structs.replace(pix, amount_cents=99)
    for _ in range(2):
        await shop.read()
    kept = await kept_usecases.list_kept(as_operator(shop.context), with_closed=True)
    assert [(one.reason, one.name, one.seen_count) for one in kept] == [("changed_repeat", pix.end_to_end_id, 1)]
    assert await read_funds(shop.live, shop.house) == (100, 0)


async def test_one_page_that_says_two_things_of_a_payment_is_no_less_noticed(shop: Shop) -> None:
    first = shop.pay(1000)
    shop.there.received += [structs.replace(first, amount_cents=1100), structs.replace(first, amount_cents=1200)]
    await shop.read()
    assert await read_funds(shop.live, shop.house) == (1000, 0)
    kept = await kept_usecases.list_kept(as_operator(shop.live.context), with_closed=False)
    assert sorted((one.reason, one.explanation) for one in kept) == [
        ("changed_repeat", "amount_cents was 1000 and is 1100"),
        ("changed_repeat", "amount_cents was 1000 and is 1200"),
    ]
    await check_books(shop.live)


async def test_what_two_accounts_list_is_credited_on_the_first_alone(shop: Shop) -> None:
    pix = await shop.receive(1000)
    there = FakeInstitution(shop.live.clock)
    said = a_description(keys=[], receiving=Credential(client_id="branch"))
    account = await account_usecases.add_account(
        as_operator(shop.live.context), there.open, "banco", said, await make_owner(shop.live, "2")
    )
    there.receive(pix)
    context = shop.at.with_port(ACCOUNT, account).with_port(CREDIT_SOURCE, AccountSource.of(account))
    await sweep(context, there, "near")
    (kept,) = await kept_usecases.list_kept(as_operator(shop.live.context), with_closed=False)
    assert (kept.reason, kept.name) == ("another_account", pix.end_to_end_id)
    assert await read_funds(shop.live, shop.house) == (1000, 0)
    # A line there that sent it is that account's own.
    async with shop.live.context.pool.acquire() as connection:
        for account_id, names in ((account.id, set[str]()), (shop.account.id, {pix.end_to_end_id})):
            assert await movement_store.find_names(connection, [pix.end_to_end_id], [pix.end_to_end_id], account_id) == names
    await check_books(shop.live)


async def test_nothing_before_the_books_begin_is_counted(shop: Shop) -> None:
    shop.pay(5, settled_at=shop.account.opened_at - timedelta(microseconds=1))
    await shop.receive(7, settled_at=shop.account.opened_at)
    assert await read_funds(shop.live, shop.house) == (7, 0)


async def test_the_books_begin_with_the_balance_there_once(live: Service, there: FakeInstitution) -> None:
    there.balance_cents = 5000
    shop = await open_shop(live, there)
    for _ in range(2):
        await post_opening(shop.at, shop.account)
    assert await read_funds(live, shop.house) == (5000, 0)
    await check_books(live)


async def test_an_institution_that_goes_away_in_a_page_leaves_the_watermark(shop: Shop) -> None:
    await shop.read()
    before = await sweep_store.find(shop.context.pool, shop.account.id, "near")
    assert before is not None
    shop.live.clock.advance(minutes=1)
    shop.there.page_size = 1
    shop.pay(1)
    shop.pay(2)
    answered = shop.there.list_received

    async def cut(*arguments: object, **options: object):  # noqa: ANN202  a generator of pages
        async for page in answered(*arguments, **options):  # type: ignore[arg-type]
            yield page
            raise InstitutionUnavailable("cut")

    shop.there.list_received = cut  # type: ignore[method-assign, assignment]
    with pytest.raises(InstitutionUnavailable):
        await shop.read()
    after = await sweep_store.find(shop.context.pool, shop.account.id, "near")
    assert after is not None
    assert (after.began_at, after.failure) == (before.began_at, "cut")
    shown = await account_usecases.read_account(as_operator(shop.live.context), "loja")
    assert institution_cli._shown(shown)["last_failure"] == "cut"
    assert await read_funds(shop.live, shop.house) == (1, 0), "what was listed is recorded all the same"
    shop.there.list_received = answered  # type: ignore[method-assign]
    await shop.read()
    assert await read_funds(shop.live, shop.house) == (3, 0)


async def test_a_reading_that_is_ahead_of_time_is_repeated_and_leaves_nothing_out(shop: Shop) -> None:
    await shop.read()
    shop.live.clock.advance(minutes=1)
    await shop.context.pool.execute("update institution_sweep set began_at = began_at + interval '1 month'")
    shop.pay(5)
    near = await sweep_store.find(shop.context.pool, shop.account.id, "near")
    now = shop.live.clock.real_now()
    assert is_due("near", near, timedelta(minutes=1), now)
    await shop.read()
    assert await read_funds(shop.live, shop.house) == (5, 0)
    near = await sweep_store.find(shop.context.pool, shop.account.id, "near")
    assert near is not None
    assert near.began_at == now


async def test_one_item_that_cannot_be_read_stops_no_other(shop: Shop) -> None:
    shop.pay(3)
    broken = MalformedItem(reason="valor: is no amount", end_to_end_id=None, content="{}")
    shop.there.received.insert(0, broken)  # type: ignore[arg-type]
    answered = shop.there.list_received

    async def with_broken(*arguments: object, **options: object):  # noqa: ANN202  a generator of pages
        shop.there.received.pop(0)
        yield [broken]
        async for page in answered(*arguments, **options):  # type: ignore[arg-type]
            yield page

    shop.there.list_received = with_broken  # type: ignore[method-assign, assignment]
    await shop.read()
    assert await read_funds(shop.live, shop.house) == (3, 0)
    near = await sweep_store.find(shop.context.pool, shop.account.id, "near")
    assert near is not None
    assert near.failure is None, "it is kept, so the list is read"
    shop.there.list_received = answered  # type: ignore[method-assign]
    shop.there.received.insert(0, broken)  # type: ignore[arg-type]
    await record_page(shop.at, [broken, broken])
    kept = await kept_usecases.list_kept(as_operator(shop.context), with_closed=True)
    assert [(one.kind, one.reason, one.name, one.seen_count) for one in kept] == [
        ("unreadable", "cannot_be_recorded", "loja", 1)
    ]
    assert kept[0].explanation == "it cannot be read: valor: is no amount"


async def test_unreadable_items_of_many_readings_are_kept_up_to_a_bound(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_usecases, "UNREADABLE_OPEN_MAX", 2)
    operator = as_operator(shop.context)
    items = [MalformedItem(reason="valor: is no amount", end_to_end_id=None, content=str(n)) for n in range(4)]
    for item in items:
        await record_page(shop.at, [item])
    kept = await kept_usecases.list_kept(operator, with_closed=False)
    assert len(kept) == 2
    # Lists are read again and again: what was left out is kept once there is room.
    await kept_usecases.close_kept(operator, kept[0].id, "looked at")
    await record_page(shop.at, items)
    assert len(await kept_usecases.list_kept(operator, with_closed=False)) == 2
    assert len(await kept_usecases.list_kept(operator, with_closed=True)) == 3


async def test_what_is_dated_ahead_is_kept_and_credited_in_its_time(shop: Shop) -> None:
    now = shop.live.clock.real_now()
    shop.pay(1, settled_at=now + timedelta(minutes=4))
    shop.pay(10, settled_at=now + timedelta(days=30))
    for _ in range(2):
        await record_page(shop.at, shop.there.received)
    assert await read_funds(shop.live, shop.house) == (1, 0)
    kept = await kept_usecases.list_kept(as_operator(shop.context), with_closed=True)
    assert [(one.kind, one.reason, one.seen_count) for one in kept] == [("credit", "cannot_be_recorded", 1)]
    shop.live.clock.advance(days=30)
    await shop.read()
    assert await read_funds(shop.live, shop.house) == (11, 0)


async def test_three_paces(shop: Shop) -> None:
    clock = shop.live.clock
    shop.there.lists.clear()
    await sweep_due(shop.at, shop.there)
    assert [returned for _, _, returned in shop.there.lists] == [False, False, True]
    shop.there.lists.clear()
    await sweep_due(shop.at, shop.there)
    assert shop.there.lists == [], "nothing is due in the same moment"
    clock.advance(seconds=15)
    await sweep_due(shop.at, shop.there)
    assert [since for since, _, _ in shop.there.lists] == [shop.account.opened_at]
    shop.there.lists.clear()
    clock.advance(days=4)
    await sweep_due(shop.at, shop.there)
    now = clock.real_now()
    near, wide, deep = shop.there.lists
    assert near[0] == shop.account.opened_at, "since the last one, and ten minutes more; nothing before the books"
    assert now - wide[0] == timedelta(hours=72)
    assert deep[0] == shop.account.opened_at, "a hundred days, and nothing before the books"


async def test_a_holder_that_may_not_deposit_is_credited_all_the_same(shop: Shop) -> None:
    await shop.live.execute_as_owner("update holder set may_deposit = false")
    shop.pay(4)
    await sweep(shop.at, shop.there, "wide")
    assert await read_funds(shop.live, shop.house) == (4, 0)


async def test_the_accounts_own_statement_is_kept_and_what_is_nobodys_is_a_movement(shop: Shop) -> None:
    shop.there.traits = structs.replace(shop.there.traits, has_statement=True)
    pix = await shop.receive(1000)
    shop.live.clock.advance(hours=1)
    now = shop.live.clock.real_now()
    day = to_day(now)
    shop.there.items = [
        InstitutionItem(
            item_id="1", day=day, settled_at=pix.settled_at, direction="IN", amount_cents=1000, kind="pix",
            end_to_end_id=pix.end_to_end_id,
        ),
        InstitutionItem(item_id="2", day=day, settled_at=now, direction="OUT", amount_cents=30, kind="fee"),
    ]  # fmt: skip
    for expected in (2, 0):
        assert await sweep_statement(shop.at, shop.account, shop.there) == expected
    assert await read_funds(shop.live, shop.house) == (970, 0)
    await check_books(shop.live)


async def list_completions(shop: Shop) -> list[str]:
    rows = await shop.live.fetch("select body::jsonb as body from event where name = 'transfer.in.completed'")
    return [row["body"] for row in rows]


async def test_a_payer_becomes_known_later_once_and_no_money_moves(shop: Shop) -> None:
    masked = describe_party(tax_id="***982247**", ispb="12345678")
    pix = shop.pay(700, payer=masked)
    for payer in (masked, describe_party()):
        shop.there.received[0] = structs.replace(pix, payer=payer)
        await shop.read()
    assert await list_completions(shop) == []
    whole = describe_party(name="Ana", tax_id="529.982.247-25", ispb="12345678")
    for payer in (whole, masked, structs.replace(whole, branch="1", account_number="77")):
        shop.there.received[0] = structs.replace(pix, payer=payer)
        await shop.read()
    (told,) = await list_completions(shop)
    assert '"status": "CONFIRMED"' in told
    (row,) = await shop.live.fetch(
        "select counterparty ->> 'name' as name, counterparty ->> 'tax_id' as tax_id, before ->> 'tax_id' as before,"
        " counterparty ->> 'branch' as branch from transfer join payer_completion on transfer_id = id"
    )
    assert tuple(row) == ("Ana", "529.982.247-25", "***982247**", "0"), "what comes after the first time is not taken over"
    assert await read_funds(shop.live, shop.house) == (700, 0)
    assert await kept_usecases.list_kept(as_operator(shop.context), with_closed=True) == []
    await check_books(shop.live)


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_payer_whose_commit_is_lost_is_completed_once(database: Addresses, live: Service, cut: Cut) -> None:
    async with open_cut_shop(database, live.clock) as (wire, shop):
        shop.live.clock.advance(minutes=1)
        pix = await shop.receive(700)
        shop.there.received[0] = structs.replace(pix, payer=describe_party(name="Ana", tax_id="52998224725"))
        wire.cuts = [cut]
        await shop.read()
        assert wire.cuts_count == 1
        await shop.read()
        assert len(await list_completions(shop)) == 1
        await check_books(shop.live)


@pytest.mark.parametrize(
    "other",
    [
        describe_party(name="Ana", tax_id="***000000**"),
        describe_party(name="Bia", tax_id="52998224725"),
        describe_party(ispb="87654321", branch="0001"),
    ],
)
async def test_another_payer_than_the_known_one_is_kept_once_and_changes_nothing(shop: Shop, other: Party) -> None:
    pix = await shop.receive(700, payer=describe_party(name="Ana", tax_id="***982247**", ispb="12345678"))
    before = await shop.live.fetch("select counterparty from transfer")
    shop.there.received[0] = structs.replace(pix, payer=other)
    for _ in range(2):
        await shop.read()
    kept = await kept_usecases.list_kept(as_operator(shop.context), with_closed=True)
    assert [(one.reason, one.name) for one in kept] == [("changed_repeat", pix.end_to_end_id)]
    assert await shop.live.fetch("select counterparty from transfer") == before
    assert await list_completions(shop) == []
    await check_books(shop.live)


async def test_what_comes_in_is_read_while_a_long_list_is(shop: Shop) -> None:
    await shop.read()
    shop.live.clock.advance(hours=1)
    for _ in range(3):
        shop.pay(1)
    shop.there.page_size, answered = 1, shop.there.list_received

    async def slowly(*arguments: object, **options: object):  # noqa: ANN202  a generator of pages
        async for page in answered(*arguments, **options):  # type: ignore[arg-type]
            shop.live.clock.advance(seconds=10)
            yield page

    shop.there.list_received = slowly  # type: ignore[method-assign, assignment]
    await sweep(shop.at, shop.there, "wide")
    spans = [since for since, _, _ in shop.there.lists[1:]]
    assert len(spans) > 2, "a near reading each fifteen seconds, between the pages"
    assert await read_funds(shop.live, shop.house) == (3, 0)
    await check_books(shop.live)
