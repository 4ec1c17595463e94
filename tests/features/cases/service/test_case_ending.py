"""An order that was asked about in vain is a case, and ends by evidence and two operators."""

from datetime import date, datetime, time
from typing import Any

import asyncpg
import pytest
from msgspec import structs

from pixconnect.features.cases.rules import Case, Evidence
from pixconnect.features.cases.service import case as case_usecases
from pixconnect.features.cases.service.case_ending import WantedEnding, propose_ending
from pixconnect.features.institutions.rules.institution import InstitutionItem, InstitutionTraits
from pixconnect.features.institutions.service.statement import settle_items
from pixconnect.features.institutions.service.statement_sweep import record_listed
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.rules.rail import Rejected, RejectedReport, Settled, SettledReport
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import SAO_PAULO, to_day
from support.account_shop import Shop, make_owner, read_again
from support.books import check_books
from support.case_orders import TWO_WEEKS, lose_order, read_days
from support.fake_institution import LOST_BEFORE, FakeInstitution
from support.operators import as_operator
from support.proposals import confirm_waiting
from support.service import Service, read_funds

LETTER = Evidence(name="letter.pdf", size=1200, digest="ab" * 32)


@pytest.fixture
def there(live: Service) -> FakeInstitution:
    """Nothing is certain of a second call."""
    return FakeInstitution(live.clock, InstitutionTraits(sends=("KEY",)))


def a_line(day: date, **changes: Any) -> InstitutionItem:
    fields: dict[str, Any] = dict(item_id="L1", day=day, direction="OUT", amount_cents=400, kind="pix", text="PIX ENVIADO")
    fields["settled_at"] = datetime.combine(day, time(23), SAO_PAULO)
    return InstitutionItem(**(fields | changes))


async def look(shop: Shop) -> list[Case]:
    await case_usecases.look_for_cases(shop.live.context)
    listed = await case_usecases.list_cases(shop.live.context, with_ended=True, kind="order")
    return [one.case for one in listed]


async def want(shop: Shop, case_id: int, said: Any = "never", operator: str = "ana", **changes: Any) -> None:
    wanted = WantedEnding(case_id=case_id, claim=said, evidence=LETTER)
    await propose_ending(as_operator(shop.live.context, operator), structs.replace(wanted, **changes))


async def confirm(shop: Shop, operator: str = "bia") -> None:
    await confirm_waiting(as_operator(shop.live.context, operator), shop.live.context, "loja")


async def test_it_is_a_case_once_its_time_is_over_and_its_days_are_read(shop: Shop) -> None:
    sent = await lose_order(shop)
    assert await look(shop) == []
    shop.live.clock.advance(days=3)
    assert await look(shop) == []  # no statement shows that it did not leave
    shop.live.clock.advance(days=-3)
    await read_days(shop)
    (case,) = await look(shop)
    assert (case.name, case.holder_id) == (sent.end_to_end_id, shop.house.holder_id)
    assert case.amount_cents is case.ended_at is None
    # By one operator's word it does not end.
    with pytest.raises(errors.BadRequest, match="an order that is open"):
        await case_usecases.close_cases(as_operator(shop.live.context), [case.id], "it is lost")


async def test_the_case_of_one_that_waited_for_a_person_there_says_so(shop: Shop) -> None:
    shop.there.send_status, shop.there.waits_for = "under_way", "approval"
    await lose_order(shop, is_heard=True)
    await shop.move_orders(seconds=60)
    await read_days(shop)
    (case,) = await look(shop)
    assert "where since 2026-07-01 it waited for approval: have it ended there first; the institution never said" in case.facts


async def test_two_operators_say_by_evidence_that_it_never_left(shop: Shop) -> None:
    sent = await lose_order(shop)
    await read_days(shop)
    (case,) = await look(shop)
    await want(shop, case.id)
    assert ((await read_again(shop, sent)).status, await read_funds(shop.live, shop.house)) == ("PROCESSING", (600, 400))
    with pytest.raises(errors.Forbidden, match="another operator confirms"):
        await confirm(shop, "console ana")
    await confirm(shop)
    assert ((await read_again(shop, sent)).status, await read_funds(shop.live, shop.house)) == ("ERROR", (1000, 0))
    (step,) = await shop.live.fetch("select state, outcome from rail_step")
    assert tuple(step) == ("closed", "decided")
    (ended,) = await look(shop)
    assert (ended.ended_as, ended.ended_by, ended.end_reason) == ("decided", "bia", "never, by two operators")
    shown = await case_usecases.read_case(shop.live.context, case.id)
    assert shown.ending is not None
    assert (shown.ending.evidence_digest, shown.ending.proposed_by) == (LETTER.digest, "ana")
    # It is not called again, and not reported twice.
    await shop.move_orders()
    assert shop.there.paid_cents == 0
    with pytest.raises(errors.BadRequest, match="that stays"):
        await want(shop, case.id, "settled")
    await check_books(shop.live)


@pytest.mark.parametrize("is_reported", [False, True])
@pytest.mark.parametrize("is_named", [False, True])
async def test_what_settled_is_the_line_of_the_statement(shop: Shop, is_named: bool, is_reported: bool) -> None:
    sent = await lose_order(shop)
    day = to_day(shop.live.clock.real_now())
    name = sent.end_to_end_id if is_named else f"E00000000{day:%Y%m%d}1500{'x' * 11}"
    await read_days(shop, a_line(day, end_to_end_id=name), a_line(day, item_id="L2", end_to_end_id=None))
    (case,) = await look(shop)
    # An order that has its line holds back no other.
    assert await read_funds(shop.live, shop.house) == (200 if is_named else 0, 400)
    matched = "line L1 is matched with the order"
    several = "several lines of the statement match; name one of L1, L2"
    for item_id, match in {"L2": matched}.items() if is_named else {None: several, "L3": "no unclaimed line"}.items():
        with pytest.raises(errors.BadRequest, match=match):
            await want(shop, case.id, "settled", item_id=item_id)
    await want(shop, case.id)
    assert await shop.live.fetchval("select contents ->> 'like' from proposal") == ("L1" if is_named else "L1, L2")
    if is_named and is_reported:
        await report_end(shop, sent, Settled(settled_at=shop.live.clock.now()))
    else:
        await want(shop, case.id, "settled", item_id=None if is_named else "L1")
        await confirm(shop)
    # The other line matches no order any more, and is posted.
    await settle_items(shop.at, shop.account)
    assert ((await read_again(shop, sent)).status, await read_funds(shop.live, shop.house)) == ("CONFIRMED", (200, 0))
    joined = "select joined_id from institution_item where item_id = 'L1' and joined_kind = 'transfer'"
    assert await shop.live.fetchval(joined) == str(sent.id)
    await check_books(shop.live)


async def test_a_line_that_comes_before_the_other_operator_confirms_is_read_by_both(shop: Shop) -> None:
    sent = await lose_order(shop)
    day = to_day(shop.live.clock.real_now())
    await read_days(shop)
    (case,) = await look(shop)
    await want(shop, case.id)
    await record_listed(shop.at, shop.account, [a_line(day, end_to_end_id=None)])
    await settle_items(shop.at, shop.account)
    with pytest.raises(errors.BadRequest, match="other lines of the statement match the order"):
        await confirm(shop)
    assert (await read_again(shop, sent)).status == "PROCESSING"
    await want(shop, case.id)
    shop.live.clock.advance(seconds=1)
    await confirm(shop)
    assert (await read_again(shop, sent)).status == "ERROR"
    await settle_items(shop.at, shop.account)
    assert await shop.live.fetchval("select description from movement where kind = 'by_hand'") == "PIX ENVIADO"


async def test_a_line_that_comes_later_is_a_movement_of_its_holder_and_opens_the_case_again(shop: Shop) -> None:
    sent = await lose_order(shop)
    day = to_day(shop.live.clock.real_now())
    await read_days(shop)
    (case,) = await look(shop)
    await want(shop, case.id)
    await confirm(shop)
    for _ in range(2):
        # Repeated, it changes nothing.
        await record_listed(shop.at, shop.account, [a_line(day, end_to_end_id=f"E{'1' * 20}{'y' * 11}")])
        await settle_items(shop.at, shop.account)
        (movement,) = await shop.live.fetch("select holder_id, amount_cents, description from movement where kind = 'by_hand'")
        assert tuple(movement) == (shop.house.holder_id, 400, f"case {case.id}: PIX ENVIADO")
        (again,) = await look(shop)
        assert (again.ended_at, again.amount_cents, again.opened_count) == (None, -400, 2)
        assert "the line L1" in again.facts
    assert ((await read_again(shop, sent)).status, await read_funds(shop.live, shop.house)) == ("ERROR", (600, 0))
    await case_usecases.close_cases(as_operator(shop.live.context), [case.id], "the bank was wrong")
    assert [one.ended_as for one in await look(shop)] == ["closed"]
    await check_books(shop.live)


@pytest.mark.parametrize(("count", "text", "own"), [(1, "ESTORNO", "R1"), (2, "ESTORNO", "R2"), (2, "ESTORNO PIX", "R1")])
async def test_a_line_by_a_name_that_the_institution_had_told_is_of_its_holder(
    shop: Shop, count: int, text: str, own: str
) -> None:
    shop.there.send_status = "under_way"
    sent = await lose_order(shop, is_heard=True)
    day = to_day(shop.live.clock.real_now())
    ((_, listed),) = shop.there.sent.items()
    await shop.move_orders(seconds=60)
    shop.there.sent.clear()
    await read_days(shop)
    (case,) = await look(shop)
    await want(shop, case.id)
    await confirm(shop)
    house = await make_owner(shop.live, "9")
    await shop.live.execute_as_owner(f"update institution_account set house_id = {house}")
    back = [a_line(day, item_id=name, direction="IN", kind="reversal", text=text) for name in ("R1", "R2")]
    out = [a_line(day, end_to_end_id=listed.end_to_end_id), a_line(day, item_id="B1", kind="boleto")]
    for listed in ([*out[:count], back[0]], back[1:]):
        await record_listed(shop.at, shop.account, listed)
        await shop.read()
        await settle_items(shop.at, structs.replace(shop.account, house_id=house))
    # What the bank gives back is of the same holder, once; the house's if it may be of the boleto, and then the next is not.
    moved = await shop.live.fetch("select item_id from movement where holder_id = $1 order by item_id", shop.house.holder_id)
    assert [row["item_id"] for row in moved] == ["L1", own]
    (again,) = await look(shop)
    assert (again.amount_cents, (await read_again(shop, sent)).status) == (-400, "ERROR")
    await check_books(shop.live)


@pytest.mark.parametrize("said", ["settled", "never"])
async def test_a_report_that_contradicts_changes_no_state_and_opens_the_case_again(shop: Shop, said: str) -> None:
    sent = await lose_order(shop)
    await read_days(shop)
    (case,) = await look(shop)
    await want(shop, case.id, said)
    await confirm(shop)
    status = (await read_again(shop, sent)).status
    now = shop.live.clock.now()
    ending = Rejected(code="AC03", reason="no") if said == "settled" else Settled(settled_at=now)
    await report_end(shop, sent, ending)
    (again,) = await look(shop)
    assert (again.ended_at, again.amount_cents) == (None, 400 if said == "settled" else -400)
    assert (await read_again(shop, sent)).status == status
    assert await shop.live.fetchval("select reason from kept_report") == "contradiction"
    await check_books(shop.live)


async def test_what_the_institution_says_before_the_other_operator_counts(shop: Shop) -> None:
    sent = await lose_order(shop)
    await read_days(shop)
    (case,) = await look(shop)
    await want(shop, case.id)
    await report_end(shop, sent, Settled(settled_at=shop.live.clock.now()))
    with pytest.raises(errors.BadRequest, match="has an end"):
        await confirm(shop)
    assert (await read_again(shop, sent)).status == "CONFIRMED"
    (ended,) = await look(shop)
    assert ended.ended_as == "recorded"
    await check_books(shop.live)


async def test_a_refund_ends_so_too(shop: Shop) -> None:
    await shop.allow()
    pix = await shop.receive(1000)
    shop.there.refund_answers.append(LOST_BEFORE)
    refund = await shop.give_back(pix, 300)
    await shop.move_orders()
    shop.there.is_reachable = False
    await read_days(shop)
    (case,) = await look(shop)
    assert case.name == refund.return_id
    await want(shop, case.id)
    await confirm(shop)
    read = await refund_usecases.read_refund_by_return_id(shop.context, shop.house, refund.return_id)
    assert (read.status, await read_funds(shop.live, shop.house)) == ("ERROR", (1000, 0))
    await check_books(shop.live)


async def test_it_is_refused_with_a_sentence(shop: Shop) -> None:
    sent = await lose_order(shop)
    values = f"'order', {shop.account.id}, {shop.house.holder_id}, '{sent.end_to_end_id}', 'early', now()"
    insert = f"insert into kept_case (kind, institution_id, holder_id, name, facts, since) values ({values}) returning id"
    row_id = await shop.live.fetchval(insert)
    until = r"may still be called, or take effect, until 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d-03$"
    with pytest.raises(errors.BadRequest, match=until):
        await want(shop, row_id)
    first = to_day(shop.live.clock.real_now())
    shop.live.clock.advance(days=TWO_WEEKS)
    with pytest.raises(errors.BadRequest, match=f"the statement of {first} was not read whole"):
        await want(shop, row_id)
    (other,) = await shop.live.fetch(
        "insert into kept_case (kind, name, facts, since) values ('rail', 'position', 'x', now()) returning id"
    )
    with pytest.raises(errors.BadRequest, match="it has no order over an account at an institution"):
        await want(shop, other["id"])
    with pytest.raises(errors.NotFound):
        await want(shop, 99)
    for evidence in ({"size": 0}, {"size": 1024 * 1024 + 1}, {"digest": "xy"}, {"name": ""}, {"name": "a\nb"}):
        with pytest.raises(errors.BadRequest, match="evidence: "):
            await want(shop, row_id, evidence=structs.replace(LETTER, **evidence))


async def test_the_schema_takes_no_ending_of_one_person_nor_a_step_without(shop: Shop) -> None:
    sent = await lose_order(shop)
    await read_days(shop)
    (case,) = await look(shop)
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="by one person"):
        await shop.live.execute_as_owner(
            "insert into case_ending select order_name, step.kind, step.institution_id, step.holder_id, resource_id,"
            f" amount_cents, called_at, {case.id}, 'never', 'x', 1, repeat('a', 64), 'ana', 'bia', now() + interval '1 year'"
            " from rail_step as step join open_order on name = order_name"
        )
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="nobody has said"):
        await shop.live.execute_as_owner("update rail_step set state = 'closed', outcome = 'decided'")
    assert (await read_again(shop, sent)).status == "PROCESSING"


async def report_end(shop: Shop, sent: Transfer, ending: Settled | Rejected) -> None:
    name = sent.end_to_end_id
    if isinstance(ending, Settled):
        report = SettledReport(report_id=name, id=name, settled_at=ending.settled_at)
    else:
        report = RejectedReport(report_id=name, id=name, code=ending.code, reason=ending.reason)
    await take_reports(shop.at, [report])
