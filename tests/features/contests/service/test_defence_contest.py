"""Contests at an institution: mirrored once, even from a faulty list, and answered through it."""

import json
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from pixconnect.features.contests.rules.infraction import InfractionClosed
from pixconnect.features.contests.service import defence as defence_usecases
from pixconnect.features.contests.service.defence import follow_contests, read_contests
from pixconnect.features.institutions.rules.account import Credential
from pixconnect.features.institutions.rules.institution import InstitutionUnavailable, ListedRefund, ReceivedPix
from pixconnect.features.institutions.rules.sweep import ListedContest, MalformedItem
from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.features.institutions.service.succession import move_holder, succeed_holder
from pixconnect.features.movements.service import receive_blocks
from pixconnect.features.pix_api.service import pix as standard_pix
from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.flows.context import FailedReports
from pixconnect.kernel.rules import block_report as reports
from pixconnect.platform.base import errors
from support.account_shop import Shop, make_owner, open_shop
from support.books import check_books
from support.fake_institution import FakeInstitution, a_description
from support.operators import as_operator
from support.records import OUTSIDE_ISPB, own_key
from support.service import Service

PAID_CENTS = 1_000


class FakeContests:
    text_length_max = 1000

    def __init__(self) -> None:
        self.listed: list[ListedContest | MalformedItem] = []
        self.heard: list[reports.Defence] = []
        self.answers: list[reports.DefenceAnswer] = []
        self.is_reachable = True
        self.lists_count = 0

    async def list_contests(self, since: datetime, until: datetime) -> AsyncIterator[Sequence[ListedContest | MalformedItem]]:
        self.lists_count += 1
        if not self.is_reachable:
            raise InstitutionUnavailable("it is away")
        for item in self.listed:
            yield [item]

    async def defend(self, defence: reports.Defence) -> reports.DefenceAnswer:
        self.heard.append(defence)
        return self.answers.pop(0) if self.answers else reports.DefenceTaken()


@pytest.fixture
async def shop(live: Service, there: FakeInstitution) -> Shop:
    # The only kind that is known to list contests.
    return await open_shop(live, there, kind="efi", profile="efi")


@pytest.fixture
async def contests(shop: Shop) -> FakeContests:
    there = FakeContests()
    shop.there.contests = there
    return there


def contest(shop: Shop, pix: ReceivedPix, name: str = "I1", **changes: Any) -> ListedContest:
    now = shop.live.clock.real_now()
    listed = ListedContest(
        name=name, end_to_end_id=pix.end_to_end_id, amount_cents=pix.amount_cents, status="open", reason="fraud",
        situation="scam", words="it was not me", defence=None, opened_at=now, respond_by=now + timedelta(days=7),
        reported_at=now,
    )  # fmt: skip
    return structs.replace(listed, **changes)


def give_back(shop: Shop, pix: ReceivedPix, cents: int, name: str = "") -> ListedRefund:
    token = name or shop.context.entropy.token(11)
    given = ListedRefund(
        id=f"theirs{token}",
        return_id=f"D{OUTSIDE_ISPB}202607011500{token}",
        amount_cents=cents,
        status="returned",
        asked_at=None,
        settled_at=shop.live.clock.real_now(),
    )
    number = next(n for n, each in enumerate(shop.there.received) if each.end_to_end_id == pix.end_to_end_id)
    known = shop.there.received[number]
    shop.there.received[number] = structs.replace(known, refunds=[*known.refunds, given])
    shop.there.balance_cents -= cents
    return given


async def look(shop: Shop, contests: FakeContests, *listed: ListedContest | MalformedItem) -> None:
    contests.listed = list(listed)
    await read_contests(shop.at, shop.opened, contests)


async def funds(shop: Shop) -> tuple[int, int, int]:
    balance = await ledger_usecases.read_balance(shop.context, shop.house)
    return balance.available_cents, balance.blocked_cents, balance.deficit_cents


async def told(shop: Shop) -> list[tuple[str, int, int]]:
    rows = await shop.live.fetch("select name, body from event where resource = 'infraction' order by id")
    payloads = [(row["name"].removeprefix("infraction."), json.loads(row["body"])["payload"]) for row in rows]
    return [(name, payload["held"], payload["taken"]) for name, payload in payloads]


async def kept(shop: Shop) -> list[str]:
    found = await kept_usecases.list_kept(as_operator(shop.live.context), with_closed=False)
    return [f"{one.kind} {one.reason}" for one in found]


async def test_a_contest_is_mirrored_once_however_often_it_is_listed(shop: Shop, contests: FakeContests) -> None:
    pix = await shop.receive(PAID_CENTS)
    listed = contest(shop, pix)
    await look(shop, contests, listed, listed)
    (before,) = await shop.live.fetch("select xmin::text, modified_at from infraction")
    await look(shop, contests, listed)
    assert await shop.live.fetch("select xmin::text, modified_at from infraction") == [before], "nothing is written"
    assert await funds(shop) == (0, PAID_CENTS, 0)
    assert await told(shop) == [("opened", PAID_CENTS, 0)]
    await shop.allow()
    with pytest.raises(errors.RefundInfractionOpen):
        await shop.give_back(pix)
    await check_books(shop.live)


async def test_once_released_it_is_free_and_an_old_list_changes_nothing(shop: Shop, contests: FakeContests) -> None:
    listed = contest(shop, await shop.receive(PAID_CENTS))
    await look(shop, contests, listed)
    shop.live.clock.advance(days=1)
    decided = structs.replace(listed, status="rejected", reported_at=shop.live.clock.real_now())
    await look(shop, contests, decided)
    await look(shop, contests, listed)
    assert await funds(shop) == (PAID_CENTS, 0, 0)
    assert await told(shop) == [("opened", PAID_CENTS, 0), ("released", 0, 0)]
    assert await kept(shop) == []
    await check_books(shop.live)


@pytest.mark.parametrize("is_read_first", [True, False], ids=["its return is read first", "the contest is read first"])
async def test_a_return_is_known_by_either_list(shop: Shop, contests: FakeContests, *, is_read_first: bool) -> None:
    pix = await shop.receive(PAID_CENTS)
    listed = contest(shop, pix)
    await look(shop, contests, listed)
    shop.live.clock.advance(days=1)
    given = give_back(shop, pix, PAID_CENTS)
    if is_read_first:
        await shop.read()
    accepted = structs.replace(listed, status="accepted", reported_at=shop.live.clock.real_now())
    await look(shop, contests, accepted, accepted)
    await shop.read()
    assert await funds(shop) == (0, 0, 0)
    (refund,) = await shop.live.fetch("select made_by, status, coalesce(network_id, return_id) as name from refund")
    assert tuple(refund) == ("institution", "RETURNED", given.return_id)
    assert await told(shop) == [("opened", PAID_CENTS, 0), ("taken", 0, PAID_CENTS)]
    # The central bank's API has the reason, though the list of returns does not.
    shown = await standard_pix.read_pix(shop.live.context, shop.house, pix.end_to_end_id)
    assert [each.natureza for each in shown.devolucoes or ()] == ["MED_FRAUDE"]
    alone = await standard_pix.read_refund(shop.live.context, shop.house, pix.end_to_end_id, given.return_id)
    assert [alone] == shown.devolucoes
    assert await kept(shop) == []
    await check_books(shop.live)


async def test_accepted_it_stays_blocked_until_the_money_has_gone(shop: Shop, contests: FakeContests) -> None:
    pix = await shop.receive(PAID_CENTS)
    listed = contest(shop, pix)
    shop.live.clock.advance(days=2)
    accepted = structs.replace(listed, status="accepted", reported_at=shop.live.clock.real_now())
    await look(shop, contests, accepted)
    assert await funds(shop) == (0, PAID_CENTS, 0)
    (row,) = await shop.live.fetch("select id, state, respond_by <= now() from infraction")
    assert row["state"] == "open"
    with pytest.raises(InfractionClosed):
        await defence_usecases.defend(shop.context, shop.house, row["id"], "too late")
    give_back(shop, pix, 600)
    await look(shop, contests, accepted)
    assert await funds(shop) == (400, 0, 0)
    assert await told(shop) == [("opened", PAID_CENTS, 0), ("taken", 0, 600)]
    (block,) = await shop.live.fetch("select wanted_cents, held_cents, state from block")
    assert tuple(block) == (400, 0, "open")
    # Later it takes a part of the rest, and after 90 days no more.
    give_back(shop, pix, 100)
    await shop.read()
    await look(shop, contests, accepted)
    assert (await told(shop))[-1] == ("taken", 0, 700)
    shop.live.clock.advance(days=91)
    await look(shop, contests, accepted)
    (block,) = await shop.live.fetch("select wanted_cents, state from block")
    assert tuple(block) == (0, "ended")
    await check_books(shop.live)


async def test_an_acceptance_without_money_ends_its_block_later(shop: Shop, contests: FakeContests) -> None:
    listed = contest(shop, await shop.receive(PAID_CENTS))
    shop.live.clock.advance(days=12)
    await look(shop, contests, structs.replace(listed, status="accepted", reported_at=listed.reported_at + timedelta(days=3)))
    assert await funds(shop) == (PAID_CENTS, 0, 0)
    assert await told(shop) == [("opened", 0, 0), ("taken", 0, 0)]
    await check_books(shop.live)


async def test_of_two_contests_of_one_pix_a_return_is_one_ones(shop: Shop, contests: FakeContests) -> None:
    pix = await shop.receive(PAID_CENTS)
    first, second = contest(shop, pix, amount_cents=400), contest(shop, pix, "I2", amount_cents=600)
    await look(shop, contests, first, second)
    give_back(shop, pix, 400)
    shop.live.clock.advance(days=1)
    ended = [structs.replace(one, status="accepted", reported_at=shop.live.clock.real_now()) for one in (first, second)]
    await look(shop, contests, *ended)
    rows = await shop.live.fetch("select name, state, taken_cents from infraction order by name")
    assert [tuple(row) for row in rows] == [("I1", "taken", 400), ("I2", "open", 0)]
    give_back(shop, pix, 600)
    await look(shop, contests, *ended)
    rows = await shop.live.fetch("select name, state, taken_cents from infraction order by name")
    assert [tuple(row) for row in rows] == [("I1", "taken", 400), ("I2", "taken", 600)]
    assert await funds(shop) == (0, 0, 0)
    assert await kept(shop) == []
    await check_books(shop.live)


@pytest.mark.parametrize("covered_cents", [400, 0], ids=["covered", "with nothing to cover them"])
async def test_a_return_listed_first_is_of_its_contest(shop: Shop, contests: FakeContests, covered_cents: int) -> None:
    pix = await shop.receive(PAID_CENTS)
    if not covered_cents:
        court = reports.BlockTerms(reference="court", kind="judicial", wanted_cents=PAID_CENTS, held_cents=PAID_CENTS)
        own = (await shop.context.directory.read_account(shop.account.house_id)).party
        reported_at = shop.live.clock.real_now()
        report = reports.BlockReport(report_id="court", party=own, blocks=(court,), reported_at=reported_at)
        await receive_blocks(shop.at, report)
    first, second = contest(shop, pix, amount_cents=400), contest(shop, pix, "I2", amount_cents=400)
    await look(shop, contests, first, second)
    shop.live.clock.advance(days=1)
    give_back(shop, pix, 400)
    # The return may belong to either contest: one of the two must give way.
    await shop.read()
    accepted = structs.replace(second, status="accepted", reported_at=shop.live.clock.real_now())
    await look(shop, contests, first, accepted)
    rows = await shop.live.fetch(
        "select reference, state, held_cents, covered_cents from block where kind = 'med' order by reference"
    )
    assert [tuple(row) for row in rows] == [("I1", "open", 400, covered_cents), ("I2", "ended", 0, 0)]
    assert await funds(shop) == ((200, 400, 0) if covered_cents else (0, PAID_CENTS, 400))
    assert await kept(shop) == []
    await check_books(shop.live)


async def test_a_return_that_is_ours_or_of_before_is_none_of_a_contest(shop: Shop, contests: FakeContests) -> None:
    pix = await shop.receive(PAID_CENTS)
    await shop.allow()
    await shop.give_back(pix, 100)
    await shop.move_orders()
    give_back(shop, pix, 200)
    await shop.read()
    shop.live.clock.advance(days=1)
    await look(shop, contests, contest(shop, pix, status="accepted", amount_cents=700))
    assert await told(shop) == [("opened", 700, 0)]
    await check_books(shop.live)


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (dict(amount_cents=PAID_CENTS + 1), "contradiction"),
        (dict(end_to_end_id=f"E{OUTSIDE_ISPB}202607011500aaaaaaaaaaa"), "unknown_order"),
    ],
)
async def test_the_incredible_is_kept(shop: Shop, contests: FakeContests, lie: dict[str, Any], reason: str) -> None:
    bad = contest(shop, await shop.receive(PAID_CENTS), **lie)
    good = contest(shop, await shop.receive(PAID_CENTS), "I2")
    # A contest of an unknown Pix is waited for.
    patient = structs.replace(shop.context, failed_reports=FailedReports(overtaken_min_s=0.0))
    for _ in range(4):
        await look(structs.replace(shop, context=patient), contests, bad, good)
    assert await kept(shop) == [f"infraction {reason}"]
    assert await funds(shop) == (PAID_CENTS, PAID_CENTS, 0)
    await check_books(shop.live)


async def test_one_listed_before_its_pix_is_followed_later(shop: Shop, contests: FakeContests) -> None:
    pix = shop.pay(PAID_CENTS)
    listed = contest(shop, pix)
    for _ in range(4):
        await look(shop, contests, listed)
    assert (await told(shop), await kept(shop)) == ([], [])
    await shop.read()
    await look(shop, contests, listed)
    await look(shop, contests, listed)
    assert await funds(shop) == (0, PAID_CENTS, 0)
    assert (await told(shop), await kept(shop)) == ([("opened", PAID_CENTS, 0)], [])
    await check_books(shop.live)


async def test_contradictions_and_late_words_are_kept(shop: Shop, contests: FakeContests) -> None:
    pix = await shop.receive(PAID_CENTS)
    listed = contest(shop, pix)
    await look(shop, contests, listed)
    await look(shop, contests, structs.replace(listed, amount_cents=500))
    assert await kept(shop) == ["infraction changed_repeat"]
    shop.live.clock.advance(days=1)
    await look(shop, contests, structs.replace(listed, status="rejected", reported_at=shop.live.clock.real_now()))
    shop.live.clock.advance(days=1)
    await look(shop, contests, structs.replace(listed, reported_at=shop.live.clock.real_now()))
    assert sorted(await kept(shop)) == ["infraction changed_repeat", "infraction contradiction"]
    assert await funds(shop) == (PAID_CENTS, 0, 0)
    await check_books(shop.live)


async def test_one_that_cannot_be_read_stops_none_of_the_others(shop: Shop, contests: FakeContests) -> None:
    listed = contest(shop, await shop.receive(PAID_CENTS))
    await look(shop, contests, MalformedItem(reason="status is a word", end_to_end_id=None, content="{}"), listed)
    assert await kept(shop) == ["unreadable cannot_be_recorded"]
    assert await told(shop) == [("opened", PAID_CENTS, 0)]


async def test_it_is_read_when_it_is_due_and_sooner_after_a_call(shop: Shop, contests: FakeContests) -> None:
    await follow_contests(shop.at, shop.opened)
    assert contests.lists_count == 0, "payments are read first"
    await shop.receive(PAID_CENTS)
    for _ in range(3):
        await follow_contests(shop.at, shop.opened, is_called=True)
    assert contests.lists_count == 1
    shop.live.clock.advance(seconds=61)
    await follow_contests(shop.at, shop.opened)
    assert contests.lists_count == 1
    await follow_contests(shop.at, shop.opened, is_called=True)
    assert contests.lists_count == 2
    shop.live.clock.advance(seconds=301)
    contests.is_reachable = False
    with pytest.raises(InstitutionUnavailable):
        await follow_contests(shop.at, shop.opened)
    assert await shop.live.fetchval("select failure from institution_sweep where pace = 'contests'") == "it is away"
    contests.is_reachable = True
    await follow_contests(shop.at, shop.opened)
    assert contests.lists_count == 4


async def test_an_answer_is_kept_then_sent_until_the_institution_has_it(shop: Shop, contests: FakeContests) -> None:
    listed = contest(shop, await shop.receive(PAID_CENTS))
    await look(shop, contests, listed)
    (row,) = await shop.live.fetch("select id from infraction")
    # The fake's account is Inter's kind or another: the taken amount is the account's.
    shown = await defence_usecases.read_infraction(shop.context, shop.house, row["id"])
    assert shown.held_cents == PAID_CENTS
    assert shown.text_length_max == 1000
    with pytest.raises(errors.BadRequest, match="1 to 1000 characters"):
        await defence_usecases.defend(shop.context, shop.house, row["id"], "x" * 1001)
    await defence_usecases.defend(shop.context, shop.house, row["id"], "delivered")
    # The installation's own rail is not asked, however often its worker looks.
    assert await defence_usecases.do_due(shop.live.context, range(256), 10) == 0
    contests.answers = [reports.DefenceUnknown()]
    assert await defence_usecases.send_due_defences(shop.at, shop.opened, 10) == 1
    assert await defence_usecases.send_due_defences(shop.at, shop.opened, 10) == 0
    shop.live.clock.advance(seconds=121)
    assert await defence_usecases.send_due_defences(shop.at, shop.opened, 10) == 1
    assert contests.heard == [reports.Defence(name="I1", text="delivered")] * 2
    (state,) = await shop.live.fetch("select state, defence_state from infraction")
    assert tuple(state) == ("answered", "sent")
    # A list from before the answer takes nothing back.
    await look(shop, contests, listed)
    assert [name for name, _, _ in await told(shop)] == ["opened", "answered"]
    await check_books(shop.live)


async def test_an_answer_that_is_refused_can_be_given_anew(shop: Shop, contests: FakeContests) -> None:
    await look(shop, contests, contest(shop, await shop.receive(PAID_CENTS)))
    (row,) = await shop.live.fetch("select id from infraction")
    await defence_usecases.defend(shop.context, shop.house, row["id"], "one")
    contests.answers = [reports.DefenceRefused(reason="the institution has no such contest")]
    await defence_usecases.send_due_defences(shop.at, shop.opened, 10)
    shown = await defence_usecases.defend(shop.context, shop.house, row["id"], "two")
    assert shown.infraction.defence_state == "sending"


async def test_the_successor_of_a_holder_answers_what_is_contested_of_it(shop: Shop, contests: FakeContests) -> None:
    operator = as_operator(shop.live.context)
    former_id, house_id = await make_owner(shop.live, "2"), await make_owner(shop.live, "9")
    await move_holder(operator, former_id, shop.account.name)
    said = a_description(keys=["b@test.example"], receiving=Credential(client_id="b"), base_url="https://127.0.0.1:8106")
    await account_usecases.add_account(operator, shop.there.open, "banco", said, house_id)
    await look(shop, contests, contest(shop, await shop.receive(PAID_CENTS, key=own_key("2"))))
    done = await succeed_holder(operator, former_id, "banco", "77", "0001")
    (row,) = await shop.live.fetch("select id, holder_id from infraction")
    heir = structs.replace(shop.house, holder_id=done.heir.id)
    shown = await defence_usecases.defend(shop.context, heir, row["id"], "It was delivered on Monday")
    assert (row["holder_id"], shown.infraction.defence) == (former_id, "It was delivered on Monday")
    await check_books(shop.live)
