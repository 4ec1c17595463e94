"""Differences without a record are adjusted by two operators, within the case, and undone or written off."""

import json
import random
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from msgspec import structs

from pixconnect.features.cases import tables as case_store
from pixconnect.features.cases.rules import Adjustment, Difference
from pixconnect.features.cases.service import case as case_usecases
from pixconnect.features.cases.service.adjustment import WantedAdjustment, adjust_case, propose_adjustment
from pixconnect.features.cases.service.case import ShownCase
from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.features.institutions.service import proposals as closing_usecases
from pixconnect.features.institutions.service.statement import record_file
from pixconnect.features.institutions.service.succession import move_holder
from pixconnect.features.institutions.service.sweep import post_opening
from pixconnect.features.statements import service as statement_usecases
from pixconnect.features.webhooks.service.feed import FeedQuery, give_positions, read_feed
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.context import Operator
from pixconnect.kernel.rules.proposal import Proposal
from pixconnect.kernel.tables import proposal as proposal_store
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection
from support.account_shop import Shop, make_owner, open_shop
from support.books import check_books
from support.fake_institution import FakeInstitution, a_description
from support.operators import as_operator
from support.postgres import Addresses, make_live
from support.proposals import confirm_waiting
from support.service import open_service
from support.statement import EVER
from support.statement_files import make_ofx

OPENING_CENTS = 10_000


@pytest.fixture
async def shop(database: Addresses) -> AsyncIterator[Shop]:
    await make_live(database)
    async with open_service(database, is_sandbox=False, has_rail=False) as live:
        there = FakeInstitution(live.clock)
        there.balance_cents = OPENING_CENTS
        shop = await open_shop(live, there)
        await post_opening(live.context, shop.account)
        yield shop


async def open_case(shop: Shop, amount_cents: int, name: str = "2026-07-01", kind: str = "day") -> int:
    (row,) = await shop.live.fetch(
        "insert into kept_case (kind, institution_id, holder_id, name, amount_cents, facts, since)"
        f" values ('{kind}', {shop.account.id}, {shop.house.holder_id}, '{name}', {amount_cents}, 'a difference', now())"
        " returning id"
    )
    return row["id"]


async def want(shop: Shop, case_id: int, **changes: Any) -> None:
    wanted = WantedAdjustment(**dict[str, Any](case_id=case_id, kind="bank_error") | changes)
    await propose_adjustment(as_operator(shop.live.context, "ana"), wanted)


async def confirm(shop: Shop, operator: str = "bia", act: str | None = None) -> None:
    await confirm_waiting(as_operator(shop.live.context, operator), shop.live.context, "loja", act)


async def adjust(shop: Shop, case_id: int, **changes: Any) -> None:
    await want(shop, case_id, **changes)
    await confirm(shop)


async def shown(shop: Shop, case_id: int) -> tuple[ShownCase, list[Adjustment]]:
    found = await case_usecases.read_case(shop.live.context, case_id)
    return found, list(found.adjustments)


async def balance(shop: Shop, holder_id: int | None = None) -> tuple[int, int, int, int]:
    """Available, owed, settled, difference."""
    (row,) = await shop.live.fetch(
        "select available_cents, deficit_cents, settlement_cents, difference_cents from whole_balance"
        f" where holder_id = {holder_id or shop.house.holder_id}"
    )
    return tuple(row)


async def test_two_operators_adjust_a_case_and_undo_it_by_its_opposite(shop: Shop) -> None:
    case_id = await open_case(shop, -300)
    await want(shop, case_id)
    assert await balance(shop) == (10_000, 0, -10_000, 0)
    with pytest.raises(errors.Forbidden, match="another operator confirms"):
        await confirm(shop, "ana")
    await confirm(shop)
    with pytest.raises(errors.NotFound, match="no proposal with the code"):
        await confirm(shop)
    assert await balance(shop) == (9_700, 0, -10_000, 300)
    case, (made,) = await shown(shop, case_id)
    assert (case.case.ended_as, made.direction, made.proposed_by, made.confirmed_by) == ("adjusted", "OUT", "ana", "bia")
    found = await statement_usecases.open_statement(shop.live.context, shop.house, *EVER, "pt")
    lines = [line async for part in statement_usecases.read_parts(shop.live.context, found) for line in part]
    assert [(line.direction, line.amount_cents, line.describe("pt")) for line in lines[1:]] == [("OUT", 300, "Ajuste")]
    # The fact that the adjustment replaced was read: the case stays open until an operator undoes the adjustment.
    await case_usecases.look_for_cases(shop.live.context)
    case, _ = await shown(shop, case_id)
    assert (case.case.ended_as, case.case.opened_count) == (None, 2)
    await adjust(shop, case_id, undone_id=made.id, kind="found")
    await case_usecases.look_for_cases(shop.live.context)
    case, _ = await shown(shop, case_id)
    assert (case.case.ended_as, await balance(shop)) == ("recorded", (10_000, 0, -10_000, 0))
    await give_positions(shop.live.context)
    page = await read_feed(shop.live.context, shop.house, FeedQuery(resource="adjustment"))
    payloads = [json.loads(one.event.body)["payload"] for one in page.events]
    told = [(each["impact_type"], each["amount"], each["kind"], each.get("opposite_of")) for each in payloads]
    assert told == [("OUT", 300, "bank_error", None), ("IN", 300, "found", made.id)]
    await check_books(shop.live)


async def test_an_undone_adjustment_reopens_its_case_while_the_difference_remains(shop: Shop) -> None:
    case_id = await open_case(shop, -300)
    case, _ = await shown(shop, case_id)
    members = {name: getattr(case.case, name) for name in Difference.__struct_fields__}

    async def look() -> tuple[str | None, int]:
        async with shop.live.context.pool.acquire() as connection, connection.transaction():
            await case_store.keep(connection, (), shop.account.id, case.case.since, [Difference(**members)])
        found, _ = await shown(shop, case_id)
        return found.case.ended_as, found.case.opened_count

    await adjust(shop, case_id)
    assert await look() == ("adjusted", 1)
    _, (made,) = await shown(shop, case_id)
    await adjust(shop, case_id, undone_id=made.id, kind="found")
    assert await look() == (None, 2)
    await adjust(shop, case_id)
    assert await look() == ("adjusted", 2)


async def test_what_is_written_off_becomes_the_houses(shop: Shop) -> None:
    tenant = await make_owner(shop.live, "2")
    await shop.live.execute_as_owner(f"update holder set institution_id = {shop.account.id} where id = {tenant}")
    case_id = await open_case(shop, -12_000)
    await adjust(shop, case_id, holder_id=tenant, amount_cents=11_000, kind="our_error")
    # A holder without enough money owes the rest.
    assert await balance(shop, tenant) == (0, 11_000, 0, 11_000)
    await adjust(shop, case_id, amount_cents=1_000)
    await adjust(shop, case_id, kind="written_off")
    assert await balance(shop, tenant) == (0, 0, 0, 0)
    assert await balance(shop) == (0, 2_000, 2_000, 0)
    with pytest.raises(errors.BadRequest, match="not written off"):
        await want(shop, case_id, kind="written_off")
    await check_books(shop.live)


async def test_only_what_has_no_id_is_adjusted_and_never_beyond_its_case(shop: Shop) -> None:
    case_id = await open_case(shop, 300)
    for amount_cents in (0, 301, -5):
        with pytest.raises(errors.BadRequest, match="amount: must be from 1 to the 300 cents"):
            await want(shop, case_id, amount_cents=amount_cents)
    with pytest.raises(errors.BadRequest, match="line: 0 lines of 2026-07-01 came in and wait"):
        await want(shop, case_id, line="L1")
    with pytest.raises(errors.BadRequest, match="a case of kind account is not adjusted"):
        await want(shop, await open_case(shop, 500, "balance", "account"))
    with pytest.raises(errors.NotFound, match="none with the id 99"):
        await want(shop, 99)
    with pytest.raises(errors.NotFound, match="no adjustment 7"):
        await want(shop, case_id, undone_id=7)
    # The case is closed between the two.
    await want(shop, case_id)
    await case_usecases.close_cases(as_operator(shop.live.context, "caio"), [case_id], "it was the bank's")
    with pytest.raises(errors.BadRequest, match="it has ended"):
        await confirm(shop)
    assert len(await proposal_store.list_waiting(shop.live.context.pool, institution_id=shop.account.id)) == 1
    assert await balance(shop) == (10_000, 0, -10_000, 0)


async def test_what_waits_keeps_nobody_from_confirming_what_waits_behind_it(shop: Shop) -> None:
    case_id, now = await open_case(shop, 300), shop.live.clock.real_now()
    await want(shop, case_id)
    await case_usecases.close_cases(as_operator(shop.live.context, "caio"), [case_id], "it was the bank's")
    allowed = Proposal(
        institution_id=shop.account.id, act="allow", contents=dict(refunds_day_cents=500), proposed_by="ana",
        proposed_at=now, confirmable_at=now,
    )  # fmt: skip
    async with as_operator(shop.live.context).pool.acquire() as connection:
        await proposal_store.replace(connection, allowed)
    with pytest.raises(errors.BadRequest, match="it has ended"):
        await confirm(shop)
    with pytest.raises(errors.NotFound, match="no proposal with the code"):
        await confirm(shop, act="close")
    await confirm(shop, act="allow")
    assert [one.act for one in await proposal_store.list_waiting(shop.live.context.pool, institution_id=shop.account.id)] == [
        "adjust"
    ]


async def test_nobody_confirms_another_adjustment_than_the_one_that_they_have_read(shop: Shop) -> None:
    tenant = await make_owner(shop.live, "2")
    await shop.live.execute_as_owner(f"update holder set institution_id = {shop.account.id} where id = {tenant}")
    case_id, bia = await open_case(shop, 300), as_operator(shop.live.context, "bia")
    await want(shop, case_id)
    (read,) = await proposal_store.list_waiting(shop.live.context.pool, institution_id=shop.account.id)
    # Between her look and her word it is another holder's.
    await want(shop, case_id, holder_id=tenant)
    with pytest.raises(errors.NotFound, match=f"no proposal with the code {read.code} waits"):
        await confirm_waiting(bia, shop.live.context, "loja", code=read.code)
    assert (await balance(shop, tenant), await balance(shop)) == ((0, 0, 0, 0), (10_000, 0, -10_000, 0))
    await confirm(shop)
    assert await balance(shop, tenant) == (300, 0, 0, -300)


@pytest.mark.parametrize(
    ("is_confirmed", "proposed_by", "changes"),
    [(False, "ana", {}), (True, "somebody", {}), (True, "ana", {"amount_cents": 200}), (True, "ana", {"kind": "found"})],
)
async def test_the_schema_takes_no_adjustment_but_the_confirmed_one(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, is_confirmed: bool, proposed_by: str, changes: dict[str, Any]
) -> None:
    await want(shop, await open_case(shop, 300), amount_cents=100)
    (waiting,) = await proposal_store.list_waiting(shop.live.context.pool, institution_id=shop.account.id)

    async def confirm_waiting_one(context: Operator, connection: Connection, proposal: Proposal) -> None:
        if is_confirmed:
            await audit.confirm(context, connection, waiting)

    monkeypatch.setattr(closing_usecases, "confirm", confirm_waiting_one)
    altered = structs.replace(waiting, proposed_by=proposed_by, contents={**waiting.contents, **changes})
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="not confirmed"):
        await adjust_case(as_operator(shop.live.context, "bia"), shop.live.context, altered)
    assert await balance(shop) == (10_000, 0, -10_000, 0)


async def test_who_does_not_lie_on_the_account_is_not_adjusted(shop: Shop) -> None:
    elsewhere, case_id = await make_owner(shop.live, "2"), await open_case(shop, 300)
    for holder_id in (elsewhere, 99):
        with pytest.raises(errors.BadRequest, match=f"holder_id: holder {holder_id} does not lie on the account loja"):
            await want(shop, case_id, holder_id=holder_id)
    await shop.live.execute_as_owner("update institution_account set removed_at = now()")
    with pytest.raises(errors.NotFound, match=f"case: the account that {case_id} is about was removed"):
        await want(shop, case_id)


async def test_what_was_adjusted_is_undone_though_its_case_got_smaller_meanwhile(shop: Shop) -> None:
    case_id = await open_case(shop, -300)
    for _ in range(2):
        await adjust(shop, case_id, amount_cents=150)
    await shop.live.execute_as_owner(
        "update kept_case set amount_cents = -100, opened_count = opened_count + 1,"
        " ended_at = null, ended_as = null, ended_by = null, end_reason = null"
    )
    with pytest.raises(errors.BadRequest, match="amount"):
        await want(shop, case_id)
    _, made = await shown(shop, case_id)
    for one in made:  # the first leaves still more than the case is of
        await adjust(shop, case_id, undone_id=one.id, kind="found")
    assert await balance(shop) == (10_000, 0, -10_000, 0)
    await check_books(shop.live)


async def test_while_a_case_is_open_or_something_is_adjusted_nobody_leaves_the_account(shop: Shop) -> None:
    maria, second = as_operator(shop.live.context, "maria"), FakeInstitution(shop.live.clock)
    tenant = await make_owner(shop.live, "2")
    other = await account_usecases.add_account(
        maria,
        second.open,
        "other",
        a_description(keys=["other@test.example"], base_url="https://127.0.0.1:8106"),
        await make_owner(shop.live, "3"),
    )
    await move_holder(maria, tenant, "loja")
    case_id = await open_case(shop, 300)
    await shop.live.execute_as_owner(f"update kept_case set holder_id = {tenant}")
    with pytest.raises(errors.BadRequest, match="it has open cases"):
        await move_holder(maria, tenant, other.name)
    await adjust(shop, case_id)
    # It has ended, and has made money that is nowhere.
    with pytest.raises(errors.BadRequest, match="it has had money there"):
        await move_holder(maria, tenant, other.name)
    final = make_ofx(first="20260701", last="20260701", opening="100.00", closing="103.00")
    await record_file(maria, "loja", final)
    await closing_usecases.propose_closing(maria, shop.context, "loja", final)
    with pytest.raises(errors.BadRequest, match="the account has an adjustment"):
        await confirm(shop)
    (made,) = (await shown(shop, case_id))[1]
    # The closing waits first, and can only be done once the adjustment is undone.
    await want(shop, case_id, undone_id=made.id, kind="found")
    await confirm(shop, act="adjust")
    with pytest.raises(errors.BadRequest, match="it has had money there"):
        await move_holder(maria, tenant, other.name)
    await check_books(shop.live)


async def test_an_account_with_an_open_case_is_not_forgotten(shop: Shop) -> None:
    maria = as_operator(shop.live.context, "maria")
    case_id = await open_case(shop, 500)
    # As of an account that was closed, on which holders stay.
    await shop.live.execute_as_owner(
        "alter table holder disable trigger keep_account; update holder set institution_id = null; "
        "alter table holder enable trigger keep_account"
    )
    shop.live.clock.advance(days=91)
    with pytest.raises(errors.BadRequest, match="a case of it is open"):
        await account_usecases.remove_account(maria, "loja")
    await case_usecases.close_cases(maria, [case_id], "the bank's own")
    await account_usecases.remove_account(maria, "loja")


async def test_whatever_is_adjusted_the_books_balance_and_no_case_is_exceeded(shop: Shop) -> None:
    chance = random.Random(24)  # noqa: S311 - a test's choices
    tenant = await make_owner(shop.live, "2")
    await shop.live.execute_as_owner(f"update holder set institution_id = {shop.account.id} where id = {tenant}")
    cases = [await open_case(shop, cents, f"2026-07-{day:02}") for day, cents in enumerate((-700, 900, -20_000, 1), 1)]
    refused = 0
    for _ in range(40):
        case_id = chance.choice(cases)
        _, made = await shown(shop, case_id)
        wanted: dict[str, Any] = chance.choice(
            [
                dict(amount_cents=chance.randint(1, 9_000), holder_id=chance.choice((tenant, shop.house.holder_id))),
                dict(kind="written_off"),
                dict(undone_id=chance.choice(made).id if made else 1, kind="found"),
            ]
        )
        try:
            await adjust(shop, case_id, **wanted)
        except (errors.BadRequest, errors.NotFound):
            refused += 1
        wrong = await shop.live.fetch(
            "select kept_case.id from kept_case join adjustment on adjustment.case_id = kept_case.id"
            " group by kept_case.id having coalesce(sum(case direction when 'IN' then adjustment.amount_cents"
            " else -adjustment.amount_cents end) filter (where account = 'available'), 0)"
            " not between least(kept_case.amount_cents, 0) and greatest(kept_case.amount_cents, 0)"
        )
        assert wrong == []
    assert 0 < refused < 40
    (told,) = await shop.live.fetch("select sum(settlement_cents + difference_cents)::bigint as cents from whole_balance")
    (taken,) = await shop.live.fetch(
        "select coalesce(sum(case direction when 'IN' then amount_cents else -amount_cents end), 0)::bigint as cents"
        " from adjustment where account = 'available'"
    )
    # Minus what the account holds from its adjustments.
    assert told["cents"] == -OPENING_CENTS - taken["cents"]
    for case_id in cases:
        try:
            await adjust(shop, case_id, kind="written_off")
        except errors.BadRequest:
            continue
    await check_books(shop.live)
