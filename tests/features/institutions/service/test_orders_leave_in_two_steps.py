"""Transfers over an account with two steps: the first returns an id, the second pays each time it is called."""

from typing import Final

import pytest
from msgspec import structs

from features.institutions.service.test_forgotten_orders import note_loss
from pixconnect.features.institutions.rules import institution as institutions
from pixconnect.features.institutions.rules.pending_call import MintAnswer, NamedPix
from pixconnect.features.institutions.rules.rail_memory import OutgoingPix, SentPix
from pixconnect.features.institutions.service.statement import settle_items
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.rules.transfer import AccountTransferRequest, KeyTransferRequest, SendingTerms, Transfer
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import to_day
from support.account_shop import Shop, open_shop, read_again
from support.books import check_books
from support.fake_institution import LOST_AFTER, LOST_BEFORE, FakeInstitution
from support.records import OUTSIDE_ISPB, outside_party
from support.service import Service, read_funds

OWNER: Final = "12345678909"
TURNED_AWAY = institutions.NotSent(reason="429")
REFUSED = institutions.CertainRefusal(code="RequisicaoInvalida", reason="refused", reject_code="CH16")
TRAITS = institutions.InstitutionTraits(sends=("KEY",), compares_owner=True, names_first=True)


class InTwoSteps(FakeInstitution):
    """Its second step pays each time it is called, under any name."""

    def __init__(self, live: Service) -> None:
        super().__init__(live.clock, TRAITS)
        self.minted: list[str] = []
        self.mint_answers: list[MintAnswer] = []  # of the next first steps
        self.confirmed: list[str] = []

    async def mint(self, pix: OutgoingPix) -> MintAnswer:
        if self.mint_answers:
            return self.mint_answers.pop(0)
        self.minted.append(f"E{OUTSIDE_ISPB}202607011500{len(self.minted):011}")
        return NamedPix(code=self.minted[-1], owner_tax_id=OWNER, owner_name="Joana")

    async def send(self, pix: OutgoingPix) -> institutions.SendAnswer:
        assert pix.code in self.minted
        self.confirmed.append(pix.code)
        return await super().send(structs.replace(pix, name=pix.code))

    def _pay(self, pix: OutgoingPix) -> SentPix:
        return structs.replace(super()._pay(pix), code=pix.code, end_to_end_id=pix.code, payee=None)

    async def read_sent(self, name: str, code: str | None = None, since: object = None) -> SentPix | None:
        return await super().read_sent(code or "", code)


@pytest.fixture
def there(live: Service) -> InTwoSteps:
    return InTwoSteps(live)


@pytest.fixture
async def shop(live: Service, there: InTwoSteps) -> Shop:
    return await open_shop(live, there)


async def begin(shop: Shop, external_id: str | None = None, tax_id: str | None = None) -> Transfer:
    await shop.allow_sending()
    await shop.receive(1000)
    request = KeyTransferRequest(amount_cents=1000, key="joana@pix.example", key_type="EMAIL", external_id=external_id)
    terms = SendingTerms(payee_tax_id=tax_id)
    return (await transfer_usecases.start_transfer(shop.context, shop.house, request, terms)).transfer


async def work(shop: Shop, times: int = 6, seconds: int = 5) -> None:
    for _ in range(times):
        await shop.move_orders()
        shop.live.clock.advance(seconds=seconds)


async def read_step(shop: Shop, sent: Transfer) -> tuple[str, str | None, str | None]:
    (row,) = await shop.live.fetch(
        f"select state, code_there, owner_tax_id from rail_step where order_name = '{sent.end_to_end_id}'"
    )
    return row["state"], row["code_there"], row["owner_tax_id"]


async def test_the_first_steps_name_is_the_networks_and_is_confirmed_once(shop: Shop, there: InTwoSteps) -> None:
    sent = await begin(shop)
    await work(shop)
    ended = await read_again(shop, sent)
    assert (ended.status, [ended.shown_id], there.minted) == ("CONFIRMED", there.confirmed, there.confirmed)
    assert await read_step(shop, sent) == ("closed", ended.shown_id, OWNER)
    assert (await read_funds(shop.live, shop.house), there.paid_cents) == ((0, 0), 1000)
    await check_books(shop.live)


@pytest.mark.parametrize("answers", [[LOST_BEFORE], [LOST_AFTER], [LOST_AFTER, TURNED_AWAY]])
async def test_a_second_step_is_asked_about_only(shop: Shop, there: InTwoSteps, answers: list[institutions.SendAnswer]) -> None:
    there.send_answers = [*answers]
    sent = await begin(shop)
    await work(shop, times=20, seconds=120)
    is_there = answers[0] is not LOST_BEFORE
    assert (await read_again(shop, sent)).status == ("CONFIRMED" if is_there else "PROCESSING")
    assert (len(there.minted), len(there.confirmed), there.paid_cents) == (1, 1, 1000 if is_there else 0)
    # Even if nothing there has it, the id is the network's.
    assert [(await read_again(shop, sent)).shown_id] == there.minted
    await check_books(shop.live)


async def test_what_was_never_found_stays_open_with_its_money_after_its_window(shop: Shop, there: InTwoSteps) -> None:
    there.send_answers = [LOST_BEFORE]
    sent = await begin(shop)
    await work(shop, times=10, seconds=10_000)
    assert (await read_again(shop, sent)).status == "PROCESSING"
    assert (await read_funds(shop.live, shop.house), len(there.confirmed)) == ((0, 1000), 1)


async def test_a_second_step_that_was_turned_away_is_no_call_and_keeps_its_name(shop: Shop, there: InTwoSteps) -> None:
    there.send_answers = [TURNED_AWAY]
    sent = await begin(shop)
    await work(shop, times=1)
    assert await read_step(shop, sent) == ("minted", there.minted[0], OWNER)
    await work(shop)
    assert (await read_again(shop, sent)).status == "CONFIRMED"
    assert (len(there.minted), len(there.confirmed), there.paid_cents) == (1, 2, 1000)


async def test_what_was_named_before_is_asked_about_before_it_is_confirmed(shop: Shop, there: InTwoSteps) -> None:
    """As if the row was reset unnoticed: it was confirmed, and nothing here knows it."""
    there.send_answers = [TURNED_AWAY]
    sent = await begin(shop)
    await work(shop, times=1)
    there.sent[there.minted[0]] = structs.replace(
        SentPix(
            name="", code=there.minted[0], end_to_end_id=there.minted[0], amount_cents=1000, status="settled",
            settled_at=shop.live.clock.real_now(),
        )
    )  # fmt: skip
    await work(shop)
    assert ((await read_again(shop, sent)).status, len(there.confirmed)) == ("CONFIRMED", 1)


async def test_a_first_step_that_fails_is_taken_again(shop: Shop, there: InTwoSteps) -> None:
    there.mint_answers = [TURNED_AWAY, TURNED_AWAY]
    sent = await begin(shop)
    await work(shop, times=1)
    assert await read_step(shop, sent) == ("new", None, None)
    await work(shop)
    assert ((await read_again(shop, sent)).status, len(there.confirmed)) == ("CONFIRMED", 1)


async def test_what_is_never_named_is_given_back(shop: Shop, there: InTwoSteps) -> None:
    there.mint_answers = [TURNED_AWAY] * 100
    sent = await begin(shop)
    await work(shop, times=30)
    assert ((await read_again(shop, sent)).status, there.confirmed) == ("CANCELLED", [])
    assert await read_funds(shop.live, shop.house) == (1000, 0)
    await check_books(shop.live)


@pytest.mark.parametrize("step", ["first", "second"])
async def test_a_certain_refusal_of_either_step_gives_it_back(shop: Shop, there: InTwoSteps, step: str) -> None:
    if step == "first":
        there.mint_answers = [REFUSED]
    else:
        there.send_answers = [REFUSED]
    sent = await begin(shop)
    await work(shop)
    ended = await read_again(shop, sent)
    assert (ended.status, ended.outcome_code, there.paid_cents) == ("ERROR", "CH16", 0)
    assert await read_funds(shop.live, shop.house) == (1000, 0)
    await check_books(shop.live)


@pytest.mark.parametrize("named", [OWNER, "98765432100"])
async def test_the_named_owner_is_compared_before_money_moves(shop: Shop, there: InTwoSteps, named: str) -> None:
    sent = await begin(shop, tax_id=named)
    await work(shop)
    ended = await read_again(shop, sent)
    is_theirs = named == OWNER
    assert (ended.status, ended.outcome_code) == (("CONFIRMED", None) if is_theirs else ("ERROR", "BE01"))
    assert (len(there.confirmed), there.paid_cents) == ((1, 1000) if is_theirs else (0, 0))
    assert await read_funds(shop.live, shop.house) == ((0, 0) if is_theirs else (1000, 0))


async def test_an_account_is_not_paid_there_and_nothing_is_reserved_for_it(shop: Shop) -> None:
    await shop.allow_sending()
    await shop.receive(1000)
    request = AccountTransferRequest(amount_cents=1000, credit_party=outside_party())
    with pytest.raises(errors.InvalidAccount, match="name a key"):
        await transfer_usecases.start_transfer(shop.context, shop.house, request)
    assert await read_funds(shop.live, shop.house) == (1000, 0)


@pytest.mark.parametrize("was", ["new", "minted"])
async def test_an_order_open_at_a_loss_is_only_asked_about(shop: Shop, there: InTwoSteps, was: str) -> None:
    if was == "new":
        there.mint_answers = [TURNED_AWAY]
    else:
        there.send_answers = [TURNED_AWAY]
    sent = await begin(shop)
    await work(shop, times=1)
    assert (await read_step(shop, sent))[0] == was
    named, confirmed = len(there.minted), len(there.confirmed)
    await _lose(shop)
    await work(shop, times=10, seconds=10_000)
    assert (await read_again(shop, sent)).status == "PROCESSING"
    assert (len(there.minted), len(there.confirmed)) == (named, confirmed)
    assert await read_funds(shop.live, shop.house) == (0, 1000)


async def test_a_request_possibly_paid_in_a_forgotten_time_is_refused(shop: Shop, there: InTwoSteps) -> None:
    """The institution keeps none of our names, so no query can find out whether the request was paid."""
    sent = await begin(shop, "t1")
    await work(shop)
    await shop.live.execute_as_owner(
        "update transfer set external_id = 'another' where direction = 'OUT'"  # as if the database had forgotten it
    )
    now = shop.live.clock.real_now()
    line = institutions.InstitutionItem(
        item_id="L1", day=to_day(now), settled_at=now, direction="OUT", amount_cents=1000, kind="by_hand",
        text="a Pix that no order here is",
    )  # fmt: skip
    await note_loss(shop)
    await shop.receive(5000)
    await shop.tell_lines(line, structs.replace(line, item_id="L2"))
    request = KeyTransferRequest(amount_cents=1000, key="joana@pix.example", key_type="EMAIL", external_id="t1")
    with pytest.raises(errors.OutcomeUnknown, match="an operator has found out"):
        await transfer_usecases.start_transfer(shop.context, shop.house, request)
    other = structs.replace(request, amount_cents=999)
    await transfer_usecases.start_transfer(shop.context, shop.house, other)
    assert (await read_again(shop, sent)).status == "CONFIRMED"
    assert len(there.confirmed) == 1


@pytest.mark.parametrize("app_count", [0, 1])
async def test_a_line_without_a_name_waits_until_its_order_settles(shop: Shop, there: InTwoSteps, app_count: int) -> None:
    there.send_status = "under_way"
    sent = await begin(shop)
    await work(shop)
    assert (await read_again(shop, sent)).shown_id == there.minted[0], "its name is known"
    now = shop.live.clock.real_now()
    line = institutions.InstitutionItem(
        item_id="L1", day=to_day(now), settled_at=now, direction="OUT", amount_cents=1000, kind="pix"
    )
    # Beside the order a person may have sent an equal Pix from the bank's app.
    await shop.tell_lines(*[structs.replace(line, item_id=f"L{number}") for number in range(app_count + 1)])
    assert await shop.live.fetchval("select waits from institution_item") == "order_unknown"
    there.end_sent("settled")
    await work(shop, seconds=60)
    await settle_items(shop.at, shop.account)
    items = [tuple(row) for row in await shop.live.fetch("select joined_id, waits from institution_item")]
    assert items == ([(None, "could_be_ours")] * 2 if app_count else [(str(sent.id), None)])
    assert await shop.live.fetchval("select count(*) from movement where direction = 'OUT'") == 0
    await check_books(shop.live)


async def _lose(shop: Shop) -> None:
    """The database has lost something, and the account was recovered since."""
    await shop.live.execute_as_owner(
        "insert into database_loss (reason, system_identifier, orders_count) values ('another timeline', 1, 1); "
        "update institution_account set lost_at = null, state = 'active', paused_because = null"
    )
