"""Lines that two operators set aside for ninety days are no question any more on one account, until that is revoked."""

import asyncio
import random
import re
from datetime import date, timedelta
from typing import Any

import asyncpg
import pytest

from features.cases.service.test_answer import answer, look, moved, waiting
from pixconnect.features.cases.rules import Rehearsal
from pixconnect.features.cases.service import case as case_usecases
from pixconnect.features.cases.service import pattern
from pixconnect.features.cases.service.separation import propose_separation
from pixconnect.features.institutions.rules.unmatched import OUTCOMES
from pixconnect.features.institutions.service import statement as statement_usecases
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import to_day
from support.account_shop import Shop, open_banco
from support.fixtures.accounts import shop_in_july
from support.operators import as_operator
from support.proposals import confirm_waiting
from support.statement_files import make_ofx, make_ofx_line

BALANCE, WIRE = "SALDO DO DIA", "TED RECEBIDA"
FEE = ("-1.00", "TARIFA")
shop = shop_in_july("KEY")


def on(shop: Shop) -> date:
    """The day that a file is of: the day before yesterday."""
    return to_day(shop.live.clock.now()) - timedelta(days=2)


async def read(shop: Shop, *lines: tuple[str, str], account: Any = None, **told: Any) -> list[str]:
    """Read a file of one day, whose lines are amounts and texts; returns their ids."""
    day = f"{on(shop):%Y%m%d}"
    # Lines that are equal have one id.
    names = [f"L{day}{lines.index(line)}" for line in lines]
    written = [
        make_ofx_line(item_id=name, amount=amount, memo=text, at=day) for name, (amount, text) in zip(names, lines, strict=True)
    ]
    content = make_ofx(*written, **dict[str, Any](first=day, last=day, closing=None) | told)
    account = account or shop.account
    recorded = await statement_usecases.record_file(as_operator(shop.live.context), account.name, content)
    await statement_usecases.settle_items(shop.live.context, account, recorded.first_on)
    return names


async def ask(shop: Shop, said: str | None, *lines: tuple[str, str], **told: Any) -> bool:
    """Read a file of one day, and give an answer about its lines; returns whether they are a question."""
    names = await read(shop, *lines, **told)
    cases = [case for case in await look(shop) if case.name == on(shop).isoformat() and names[0] in case.facts]
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
        assert (one.reason, one.form) == ("perhaps_balance", "saldo do dia #/#")
        assert (one.days_count, one.pattern_id) == (number + 1, None)
        if number < 2:
            with pytest.raises(errors.BadRequest, match="needs 3, the last 90 days after the first"):
                await pattern.propose_memory(operator, "loja", one.item_id)
        shop.live.clock.advance(days=45)
    assert await ask(shop, None, ("80.00", f"{BALANCE} 01/01"))
    number = await remember(shop)
    # The line that waited is set aside, and others, whatever their amount.
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
        await confirm_waiting(as_operator(shop.live.context, "bia"), shop.live.context, "loja", "remember", proposed.code)
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
    assert name in case.facts
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
    for other in (BALANCE, f"{BALANCE} 1/1/1", f"{BALANCE} 1/1 B", f"{BALANCE}\u00a01/1\u202e", "PIX RECEBIDO SALDO 1/1"):
        shop.live.clock.advance(days=1)
        (name,) = await read(shop, ("10.00", other))
        await look(shop)
        assert (await waiting(shop))[name] in {"perhaps_balance", "not_yet_read"}, other
    shop.live.clock.advance(days=1)
    assert not await ask(shop, None, ("10.00", "  saldo   DO\u00a0dia 7/8"))


@pytest.mark.parametrize("text", ["SALDO 123.456.789-09", "SALDO 12345678000195", "SALDO 31/07 123456789"])
async def test_lines_that_may_name_a_person_have_no_form(shop: Shop, text: str) -> None:
    for _ in range(3):
        await ask(shop, "aside", ("10.00", text))
        shop.live.clock.advance(days=45)
    assert await listed(shop) == []


async def test_money_is_never_posted_by_a_pattern(shop: Shop) -> None:
    """Balances prove that a wire is money, and not that it is no payment that is unmatched near it."""
    for cents in (50_00, 70_00, 60_00):
        shop.live.clock.advance(days=-2)
        shop.pay(cents)
        await shop.read()
        shop.live.clock.advance(days=2)
        wire = (f"{cents / 100:.2f}", f"{WIRE} {on(shop):%d}")
        assert await ask(shop, "counts", wire, opening="100.00", closing=f"{100 + cents / 100:.2f}")
        shop.live.clock.advance(days=45)
    assert await moved(shop) == [50_00, 60_00, 70_00]
    assert await listed(shop) == []


async def test_balances_that_do_not_agree_without_a_line_keep_it_a_question(shop: Shop) -> None:
    await rehearse(shop, "aside", BALANCE)
    await remember(shop)
    assert await ask(shop, None, ("10.00", f"{BALANCE} 1/1"), opening="100.00", closing="105.00")
    shop.live.clock.advance(days=1)
    assert not await ask(shop, None, ("10.00", f"{BALANCE} 2/1"))


async def test_other_lines_are_set_aside_only_if_balances_agree_without_them(shop: Shop) -> None:
    # A line that stands twice in its file, under one id.
    for _ in range(3):
        await read(shop, FEE, FEE)
        (case,) = [one for one in await look(shop) if one.name == on(shop).isoformat()]
        (name,) = [name for name, waits in (await waiting(shop)).items() if waits == "perhaps_known"]
        await answer(shop, case.id, aside=[name])
        shop.live.clock.advance(days=45)
    (one,) = await listed(shop)
    assert (one.reason, one.direction, one.form) == ("perhaps_known", "OUT", "tarifa")
    await remember(shop)
    await read(shop, FEE, FEE)
    told = "update institution_day set opening_cents = 1000, second_closing_cents = {}, closing_cents = {} where day = '{}'"
    for second, closing, is_asked in (("null", "null", True), ("null", 800, True), (800, 900, True), (900, 900, False)):
        await shop.live.execute_as_owner(told.format(second, closing, on(shop)))
        await look(shop)
        assert ("perhaps_known" in (await waiting(shop)).values()) == is_asked, closing


async def test_two_processes_answer_a_line_once_and_none_while_it_is_worked_on(shop: Shop) -> None:
    await rehearse(shop, "aside", BALANCE)
    await remember(shop)
    (name,) = await read(shop, ("40.00", f"{BALANCE} 1/1"))
    async with shop.live.context.pool.keep() as locking, day_store.working_on(locking, shop.account.id):
        await pattern.answer_remembered(shop.live.context, shop.account)
        assert (await waiting(shop))[name] == "perhaps_balance"
    await asyncio.gather(*[pattern.answer_remembered(shop.live.context, shop.account) for _ in range(4)])
    assert (await waiting(shop))[name] == "no_money"
    assert await shop.live.fetch("select count(*) from line_answer where pattern_id is not null") == [(1,)]


async def test_the_schema_knows_which_waiting_lines_count(shop: Shop) -> None:
    (source,) = await shop.live.fetch("select pg_get_functiondef('find_pattern'::regproc)")
    listed = re.search(r"other\.waits in \(([^)]*)\)", source[0])
    assert listed is not None
    counting = {name for name, traits in OUTCOMES.items() if traits.counts} - {"new", "known"}
    assert set(re.findall(r"\w+", listed[1])) == counting


async def test_the_schema_remembers_nothing_that_was_not_rehearsed_and_confirmed(shop: Shop) -> None:
    await rehearse(shop, "aside", BALANCE)
    number = await remember(shop)
    await pattern.forget_pattern(as_operator(shop.live.context), "loja", number)
    assert await ask(shop, None, ("10.00", BALANCE + " 1/1"))
    (name,) = [name for name, waits in (await waiting(shop)).items() if waits == "perhaps_balance"]
    copied = "select institution_id, reason, direction, form, proposal_id, since from answer_pattern"
    for statement in (
        "insert into answer_pattern (institution_id, reason, direction, form, proposal_id, since) " + copied,
        "delete from answer_pattern",
        "delete from line_answer",
        "update line_answer set answered_at = answered_at - interval '1 year'",
        f"update institution_item set waits = 'no_money' where item_id = '{name}'",
        "update institution_item set waits = null where waits = 'no_money'",
    ):
        with pytest.raises(asyncpg.IntegrityConstraintViolationError):
            await shop.live.execute_as_owner(statement)
    # Lines that are money are never remembered, however often they are answered alike.
    with pytest.raises(asyncpg.CheckViolationError, match="a_pattern_moves_nothing"):
        await shop.live.execute_as_owner(
            "set session_replication_role = replica; "
            "insert into answer_pattern (institution_id, reason, direction, form, proposal_id, since) "
            + copied.replace("reason,", "'could_be_ours',")
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
