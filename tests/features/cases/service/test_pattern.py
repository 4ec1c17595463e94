"""An answer that two operators repeat for ninety days is remembered for one account, until it is revoked."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import date, timedelta
from typing import Any

import asyncpg
import pytest

from features.cases.service.test_answer import answer, look, moved, waiting
from pixconnect.features.cases.rules import Rehearsal
from pixconnect.features.cases.service import case as case_usecases
from pixconnect.features.cases.service import pattern
from pixconnect.features.cases.service.separation import propose_separation
from pixconnect.features.institutions.rules.institution import InstitutionTraits
from pixconnect.features.institutions.service import statement as statement_usecases
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import to_day
from support.account_shop import Shop, open_banco, open_in_july
from support.operators import as_operator
from support.postgres import Addresses
from support.proposals import confirm_waiting
from support.statement_files import make_ofx, make_ofx_line

BALANCE, WIRE = "SALDO DO DIA", "TED RECEBIDA"


@pytest.fixture
async def shop(database: Addresses) -> AsyncIterator[Shop]:
    async with open_in_july(database, InstitutionTraits(sends=("KEY",))) as shop:
        yield shop


def on(shop: Shop) -> date:
    """The day that a file is of: the day before yesterday."""
    return to_day(shop.live.clock.now()) - timedelta(days=2)


async def read(shop: Shop, *lines: tuple[str, str], account: Any = None, **told: Any) -> list[str]:
    """Read a file of one day, whose lines are amounts and texts; returns their ids."""
    day = f"{on(shop):%Y%m%d}"
    names = [f"L{day}{number}" for number in range(len(lines))]
    written = [
        make_ofx_line(item_id=name, amount=amount, memo=text, at=day)
        for name, (amount, text) in zip(names, lines, strict=True)
    ]
    content = make_ofx(*written, **dict[str, Any](first=day, last=day, closing=None) | told)
    account = account or shop.account
    recorded = await statement_usecases.record_file(as_operator(shop.live.context), account.name, content)
    await statement_usecases.settle_items(shop.live.context, account, recorded.first_on)
    return names


async def ask(shop: Shop, said: str | None, *lines: tuple[str, str], **told: Any) -> bool:
    """Read a file of one day, and give an answer about its lines; returns whether they are a question."""
    names = await read(shop, *lines, **told)
    cases = [case for case in await look(shop) if case.name == on(shop).isoformat() and names[0] in case.said]
    assert len(cases) <= 1
    if cases and said is not None:
        await answer(shop, cases[0].id, **{said: names})
    return bool(cases)


async def rehearse(shop: Shop, said: str, text: str, amounts: tuple[str, ...] = ("50.00", "70.00", "60.00")) -> None:
    for amount in amounts:
        assert await ask(shop, said, (amount, f"{text} {on(shop):%d/%m}"))
        shop.live.clock.advance(days=45)


async def listed(shop: Shop) -> list[Rehearsal]:
    return await pattern.list_patterns(shop.live.context, "loja")


async def remember(shop: Shop) -> int:
    (rehearsal,) = await listed(shop)
    proposed = await pattern.propose_memory(as_operator(shop.live.context, "ana"), "loja", rehearsal.item_id)
    with pytest.raises(errors.Forbidden):
        await confirm_waiting(as_operator(shop.live.context, "ana"), shop.live.context, "loja", "remember")
    await confirm_waiting(as_operator(shop.live.context, "bia"), shop.live.context, "loja", "remember", proposed.code)
    (remembered,) = await listed(shop)
    assert remembered.pattern_id is not None
    return remembered.pattern_id


async def test_a_balance_that_is_set_aside_for_ninety_days_is_no_question_any_more(shop: Shop) -> None:
    operator = as_operator(shop.live.context, "ana")
    for number, amount in enumerate(("50.00", "70.00", "60.00")):
        assert await ask(shop, "aside", (amount, f"{BALANCE} {on(shop):%d/%m}"))
        (one,) = await listed(shop)
        assert (one.reason, one.form, one.answer) == ("perhaps_balance", "saldo do dia #/#", "aside")
        assert (one.days_count, one.pattern_id) == (number + 1, None)
        if number < 2:
            with pytest.raises(errors.BadRequest, match="needs 3, the last 90 days after the first"):
                await pattern.propose_memory(operator, "loja", one.item_id)
        shop.live.clock.advance(days=45)
    assert await ask(shop, None, ("80.00", f"{BALANCE} 01/01"))
    number = await remember(shop)
    # The line that waited is answered, and others: a credit that is set aside moves nothing, whatever its amount.
    assert await look(shop) == []
    shop.live.clock.advance(days=1)
    assert not await ask(shop, None, ("9000.00", f"{BALANCE} 02/01"))
    assert (await moved(shop), set((await waiting(shop)).values())) == ([], {"no_money"})
    (one,) = await listed(shop)
    assert (one.pattern_id, one.answered_count) == (number, 2)
    rows = await operator.pool.fetch(
        "select operator, verb, subject, after ->> 'aside' as line from audit order by id desc limit 1"
    )
    assert tuple(rows[0])[:3] == (f"pattern {number}", "case answer", "institution loja")
    with pytest.raises(errors.BadRequest, match="is remembered already"):
        await pattern.propose_memory(operator, "loja", one.item_id)


async def test_answers_of_fewer_days_or_a_shorter_time_are_not_remembered(shop: Shop) -> None:
    for days in (44, 45, 0):
        await ask(shop, "aside", ("50.00", BALANCE))
        shop.live.clock.advance(days=days)
    # Three days, but 89 days apart.
    (one,) = await listed(shop)
    assert one.days_count == 3
    with pytest.raises(errors.BadRequest, match="needs 3"):
        await pattern.propose_memory(as_operator(shop.live.context), "loja", one.item_id)
    with pytest.raises(errors.NotFound):
        await pattern.propose_memory(as_operator(shop.live.context), "loja", "L0")


async def test_another_answer_begins_the_rehearsal_anew_and_ends_what_is_remembered(shop: Shop) -> None:
    await rehearse(shop, "aside", BALANCE)
    (one,) = await listed(shop)
    proposed = await pattern.propose_memory(as_operator(shop.live.context, "ana"), "loja", one.item_id)
    assert await ask(shop, "counts", ("10.00", BALANCE + " 1/1"))
    assert await listed(shop) == []
    with pytest.raises(errors.BadRequest, match="have answered otherwise meanwhile"):
        await confirm_waiting(
            as_operator(shop.live.context, "bia"), shop.live.context, "loja", "remember", proposed.code
        )
    shop.live.clock.advance(days=45)
    await rehearse(shop, "aside", BALANCE)
    await remember(shop)
    (name,) = await read(shop, ("20.00", BALANCE + " 2/2"))
    assert await look(shop) == []
    # Two operators take back an answer that the pattern gave: the line waits again, and no later one is answered.
    proposed = await propose_separation(as_operator(shop.live.context, "ana"), "loja", [name])
    await confirm_waiting(as_operator(shop.live.context, "bia"), shop.live.context, "loja", "separate", proposed.code)
    assert ((await waiting(shop))[name], await listed(shop)) == ("perhaps_balance", [])
    (case,) = await look(shop)
    assert name in case.said
    shop.live.clock.advance(days=1)
    assert await ask(shop, None, ("30.00", BALANCE + " 3/3"))
    rows = await as_operator(shop.live.context).pool.fetch("select operator, verb from audit order by id desc limit 20")
    assert ("bia", "case forget") in [tuple(row) for row in rows]


async def test_a_revoked_pattern_answers_nothing_and_is_rehearsed_anew(shop: Shop) -> None:
    await rehearse(shop, "aside", BALANCE)
    number = await remember(shop)
    cida = as_operator(shop.live.context, "cida")
    with pytest.raises(errors.NotFound):
        await pattern.forget_pattern(cida, "loja", number + 1)
    await pattern.forget_pattern(cida, "loja", number)
    with pytest.raises(errors.NotFound):
        await pattern.forget_pattern(cida, "loja", number)
    assert await ask(shop, None, ("10.00", BALANCE + " 1/1"))
    assert await listed(shop) == []
    for statement in ("set revoked_at = null, revoked_by = null", "set revoked_by = 'dora'", "set form = 'x'"):
        with pytest.raises(asyncpg.IntegrityConstraintViolationError):
            await shop.live.execute_as_owner(f"update answer_pattern {statement}")


async def test_a_pattern_is_of_one_account_and_of_one_form(shop: Shop) -> None:
    banco = await open_banco(shop)
    await rehearse(shop, "aside", BALANCE)
    await remember(shop)
    await read(shop, ("10.00", BALANCE + " 1/1"), account=banco, number="2")
    assert [case.institution_id for case in await look(shop)] == [banco.id]
    for other in (
        BALANCE,
        f"{BALANCE} 1/1/1",
        f"{BALANCE} 1/1 B",
        f"{BALANCE}\u00a01/1\u202e",
        "PIX RECEBIDO SALDO 1/1",
    ):
        shop.live.clock.advance(days=1)
        (name,) = await read(shop, ("10.00", other))
        await look(shop)
        assert (await waiting(shop))[name] in {"perhaps_balance", "not_yet_read"}
    shop.live.clock.advance(days=1)
    assert not await ask(shop, None, ("10.00", "  saldo   DO\u00a0dia 7/8"))


async def receive(shop: Shop, cents: int) -> None:
    """A payment on the day of the next file, which is not in it."""
    shop.live.clock.advance(days=-2)
    shop.pay(cents)
    await shop.read()
    shop.live.clock.advance(days=2)


async def post(shop: Shop, said: str | None, cents: int, **told: Any) -> bool:
    """Read a wire of the amount of a payment, which may be that payment."""
    await receive(shop, cents)
    amount = f"{cents / 100:.2f}"
    balances = dict[str, Any](opening="100.00", closing=f"{100 + cents / 100:.2f}")
    await ask(shop, None, (amount, f"{WIRE} {on(shop):%d}"), **balances | told)
    return await ask(shop, said, (amount, f"{WIRE} {on(shop):%d}"), **balances | told)


async def test_money_is_posted_up_to_the_rehearsed_amount_on_days_that_balances_prove(shop: Shop) -> None:
    for cents in (50_00, 70_00, 60_00):
        assert await post(shop, "counts", cents)
        shop.live.clock.advance(days=45)
    (one,) = await listed(shop)
    assert (one.reason, one.direction, one.answer, one.amount_max_cents) == ("could_be_ours", "IN", "counts", 70_00)
    number = await remember(shop)
    before = [50_00, 60_00, 70_00]
    # One cent more than two operators have seen; then a day without the balances that prove the line.
    assert await post(shop, None, 70_01)
    shop.live.clock.advance(days=8)
    assert await post(shop, None, 65_00, closing="100.00")
    assert await moved(shop) == before
    shop.live.clock.advance(days=8)
    assert not await post(shop, None, 70_00)
    assert await moved(shop) == [50_00, 60_00, 70_00, 70_00]
    (row,) = await shop.live.fetch("select answer, reason from line_answer where pattern_id is not null")
    assert (*row, (await listed(shop))[0].pattern_id) == ("counts", "could_be_ours", number)


async def test_two_processes_answer_a_line_once_and_none_while_it_is_worked_on(shop: Shop) -> None:
    for cents in (50_00, 70_00, 60_00):
        assert await post(shop, "counts", cents)
        shop.live.clock.advance(days=45)
    await remember(shop)
    await receive(shop, 40_00)
    await read(shop, ("40.00", f"{WIRE} {on(shop):%d}"), opening="100.00", closing="140.00")
    async with shop.live.context.pool.keep() as locking, day_store.working_on(locking, shop.account.id):
        await pattern.answer_remembered(shop.live.context, shop.account)
        assert len(await moved(shop)) == 3
    await asyncio.gather(*[pattern.answer_remembered(shop.live.context, shop.account) for _ in range(4)])
    assert await moved(shop) == [40_00, 50_00, 60_00, 70_00]
    assert await shop.live.fetch("select count(*) from line_answer where pattern_id is not null") == [(1,)]


async def test_the_schema_remembers_nothing_that_was_not_rehearsed_and_confirmed(shop: Shop) -> None:
    await rehearse(shop, "aside", BALANCE)
    number = await remember(shop)
    await pattern.forget_pattern(as_operator(shop.live.context), "loja", number)
    assert await ask(shop, None, ("10.00", BALANCE + " 1/1"))
    (name,) = [name for name, waits in (await waiting(shop)).items() if waits == "perhaps_balance"]
    copied = "select institution_id, reason, direction, form, answer, proposal_id, since from answer_pattern"
    for statement in (
        "insert into answer_pattern (institution_id, reason, direction, form, answer, proposal_id, since) " + copied,
        "delete from answer_pattern",
        "delete from line_answer",
        "update line_answer set answered_at = answered_at - interval '1 year'",
        f"update institution_item set waits = 'no_money' where item_id = '{name}'",
        "update institution_item set waits = null where waits = 'no_money'",
    ):
        with pytest.raises(asyncpg.IntegrityConstraintViolationError):
            await shop.live.execute_as_owner(statement)
    # An answer that posts what no balance proves is never remembered, however often it is given.
    with pytest.raises(asyncpg.CheckViolationError, match="a_pattern_posts_what_files_prove"):
        await shop.live.execute_as_owner(
            "set session_replication_role = replica; "
            "insert into answer_pattern (institution_id, reason, direction, form, answer, proposal_id, since) "
            + copied.replace("answer,", "'counts',")
        )


async def test_the_life_of_a_pattern_is_that_of_its_model(shop: Shop) -> None:
    """Random answers, files, memories and revocations: a line is a question unless its pattern is remembered."""
    chance = random.Random(7)  # noqa: S311
    days, is_remembered = list[date](), False
    for _ in range(40):
        shop.live.clock.advance(days=chance.choice((1, 20, 45)))
        today = to_day(shop.live.clock.real_now())
        said = chance.choices(("aside", "counts", None), (10, 1, 1))[0]
        is_asked = await ask(shop, said, ("50.00", f"{BALANCE} {on(shop):%d/%m}"))
        assert is_asked != is_remembered
        if is_asked and said == "aside":
            days.append(today)
        elif is_asked and said == "counts":
            days.clear()
        is_rehearsed = len(set(days)) >= 3 and days[-1] - days[0] >= timedelta(days=90)
        if is_remembered and chance.random() < 0.3:
            (one,) = await listed(shop)
            await pattern.forget_pattern(as_operator(shop.live.context), "loja", one.pattern_id or 0)
            days.clear()
            is_remembered = False
        elif is_rehearsed and not is_remembered:
            await remember(shop)
            is_remembered = True
        elif days and not is_remembered:
            (one,) = await listed(shop)
            with pytest.raises(errors.BadRequest, match="needs 3"):
                await pattern.propose_memory(as_operator(shop.live.context), "loja", one.item_id)
    await case_usecases.look_for_cases(shop.live.context)
