"""A restored database never refuses a lost transfer as if it had not been paid, and it is paid once."""

from datetime import datetime, timedelta

import pytest
from msgspec import structs

from pixconnect.features.cases.rules import Case
from pixconnect.features.cases.service import case as case_usecases
from pixconnect.features.cases.service.answer import WantedAnswer, propose_answer
from pixconnect.features.institutions.rules.institution import InstitutionItem, InstitutionTraits
from pixconnect.features.institutions.rules.rail_memory import OutgoingPix, SentPix, SentReturn, name_at_institution
from pixconnect.features.institutions.service.returns import record_sent_returns
from pixconnect.features.institutions.service.statement import settle_items
from pixconnect.features.institutions.service.statement_sweep import sweep_statement
from pixconnect.features.institutions.service.succession import move_holder, succeed_holder
from pixconnect.features.institutions.tables import returns as return_store
from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import to_day
from support.account_shop import Shop, make_owner, open_banco, open_shop, read_again
from support.books import check_books
from support.fake_institution import FakeInstitution
from support.operators import as_operator
from support.proposals import confirm_waiting
from support.records import OUTSIDE_ISPB, own_key
from support.service import Service, read_funds

KEY = "joana@pix.example"
RECEIVED_CENTS = 1000


@pytest.fixture
def there(live: Service) -> FakeInstitution:
    """A name that was used is refused."""
    return FakeInstitution(live.clock, InstitutionTraits(sends=("KEY", "MANUAL"), resend_for=timedelta(hours=12)))


async def forget_order(shop: Shop, external_id: str, amount_cents: int) -> SentPix:
    """An order left, and the database was restored to before it: only the institution has it."""
    await shop.allow_sending()
    await shop.receive(RECEIVED_CENTS)
    shop.live.clock.advance(minutes=1)
    return await send_unknown(shop, external_id, amount_cents)


async def send_unknown(shop: Shop, external_id: str, amount_cents: int) -> SentPix:
    """Orders that only the institution has: of the house, or of one of its family."""
    keys = await return_store.read_keys(shop.context.pool, [shop.account.id])
    name = name_at_institution(keys[shop.account.id], shop.account.id, "order", shop.house.holder_id, external_id)
    payee = structs.replace(UNKNOWN_PARTY, key=KEY)
    order = OutgoingPix(name=name, amount_cents=amount_cents, payer_key=None, payee=payee, is_by_key=True)
    sent = await shop.there.send(order)
    assert isinstance(sent, SentPix)
    return sent


async def note_loss(shop: Shop) -> None:
    now = shop.live.clock.now()
    for statement in (
        "insert into database_loss (reason, system_identifier, orders_count) values ('another timeline', 1, 0)",
        f"update database_loss set noticed_at = '{now}', known_until = '{now - timedelta(minutes=10)}'",
        "update institution_account set lost_at = null, state = 'active', paused_because = null",
    ):
        await shop.live.execute_as_owner(statement)


def make_line(sent: SentPix, at: datetime) -> InstitutionItem:
    return InstitutionItem(
        item_id="L1", day=to_day(at), settled_at=at, direction="OUT", amount_cents=sent.amount_cents, kind="pix",
        end_to_end_id=sent.end_to_end_id,
    )  # fmt: skip


async def tell_line(shop: Shop, sent: SentPix) -> None:
    line = make_line(sent, shop.live.clock.real_now())
    await shop.tell_lines(line)


async def ask(shop: Shop, external_id: str | None, amount_cents: int) -> Transfer:
    return await shop.send(amount_cents, KEY, external_id=external_id)


async def end(shop: Shop, asked: Transfer) -> str:
    for _ in range(3):
        await shop.move_orders()
        shop.live.clock.advance(seconds=60)
    return (await read_again(shop, asked)).status


@pytest.mark.parametrize("is_read_first", [True, False])
async def test_a_request_that_was_forgotten_finds_what_it_had_paid(shop: Shop, *, is_read_first: bool) -> None:
    sent = await forget_order(shop, "t1", 400)
    await note_loss(shop)
    if is_read_first:
        await tell_line(shop, sent)
    asked = await ask(shop, "t1", 400)
    if not is_read_first:
        await tell_line(shop, sent)
    assert await end(shop, asked) == "CONFIRMED"
    await settle_items(shop.at, shop.account)
    assert (await read_funds(shop.live, shop.house), shop.there.paid_cents) == ((600, 0), 400)
    lines = await shop.live.fetch("select joined_kind, joined_id from institution_item")
    assert [tuple(line) for line in lines] == [("transfer", str(asked.id))]
    await check_books(shop.live)


async def test_what_its_own_line_left_no_funds_for_is_not_refused_as_if_it_had_not_been_paid(shop: Shop) -> None:
    sent = await forget_order(shop, "t1", RECEIVED_CENTS)
    await note_loss(shop)
    await tell_line(shop, sent)
    assert await read_funds(shop.live, shop.house) == (0, 0)
    with pytest.raises(errors.OutcomeUnknown, match="external_id 't1'"):
        await ask(shop, "t1", RECEIVED_CENTS)
    # No line has that amount, or the caller has no external id to repeat.
    for external_id, amount_cents in (("t2", RECEIVED_CENTS - 1), (None, RECEIVED_CENTS)):
        with pytest.raises(errors.InsufficientFunds):
            await ask(shop, external_id, amount_cents)
    await shop.receive(RECEIVED_CENTS)
    assert await end(shop, await ask(shop, "t1", RECEIVED_CENTS)) == "CONFIRMED"
    assert (await read_funds(shop.live, shop.house), shop.there.paid_cents) == ((RECEIVED_CENTS, 0), RECEIVED_CENTS)
    # Its line has found its order: from now on a refusal is certain.
    await ask(shop, "t3", RECEIVED_CENTS)
    with pytest.raises(errors.InsufficientFunds):
        await ask(shop, "t4", RECEIVED_CENTS)
    await check_books(shop.live)


async def test_without_a_loss_what_somebody_sent_there_makes_no_refusal_doubtful(shop: Shop) -> None:
    await tell_line(shop, await forget_order(shop, "t1", RECEIVED_CENTS))
    with pytest.raises(errors.InsufficientFunds):
        await ask(shop, "t1", RECEIVED_CENTS)
    await note_loss(shop)
    shop.live.clock.advance(days=36)
    with pytest.raises(errors.InsufficientFunds):
        await ask(shop, "t1", RECEIVED_CENTS)


async def test_before_what_is_forgotten_was_read_nobody_is_told_that_nothing_was_done(shop: Shop) -> None:
    shop.live.clock.stand_still()
    sent = await forget_order(shop, "t1", 400)
    await note_loss(shop)
    lost = "update institution_account set lost_at = now(), state = 'paused', paused_because = 'loss', revision = revision + 1"
    await shop.live.execute_as_owner(lost)
    shop.live.clock.advance(seconds=2)
    with pytest.raises(errors.ServiceUnavailable, match="may have been done before that") as paused:
        await ask(shop, "t1", 400)
    assert paused.value.retry_after_s is not None
    # General rules for transfers are checked before those of the account.
    await shop.live.execute_as_owner("update holder set transfer_limit_cents = 1")
    with pytest.raises(errors.OutcomeUnknown, match="external_id 't1' later"):
        await ask(shop, "t1", 400)
    for external_id, amount_cents in ((None, 400), ("t1", 0)):
        with pytest.raises(errors.RuleBroken):
            await ask(shop, external_id, amount_cents)
    for statement in (
        # Without the trigger by which a higher limit waits.
        "set session_replication_role = replica; update holder set transfer_limit_cents = null",
        "update institution_account set lost_at = null, state = 'active', paused_because = null, revision = revision + 1",
    ):
        await shop.live.execute_as_owner(statement)
    shop.live.clock.advance(seconds=2)
    await tell_line(shop, sent)
    assert await end(shop, await ask(shop, "t1", 400)) == "CONFIRMED"
    assert shop.there.paid_cents == 400
    await check_books(shop.live)


async def test_the_return_of_a_forgotten_transfer_counts_once(shop: Shop) -> None:
    sent = await forget_order(shop, "t1", 400)
    await note_loss(shop)
    await tell_line(shop, sent)
    returned = SentReturn(
        end_to_end_id=sent.end_to_end_id or "",
        return_id=f"D{OUTSIDE_ISPB}202607011600{1:011}",
        amount_cents=400,
        settled_at=shop.live.clock.now(),
    )
    await record_sent_returns(shop.at, shop.account, [returned])
    assert await end(shop, await ask(shop, "t1", 400)) == "CONFIRMED"
    for _ in range(2):
        await record_sent_returns(shop.at, shop.account, [returned])
    # The house has it, as no transfer was known: an operator finds out for whom.
    assert await read_funds(shop.live, shop.house) == (RECEIVED_CENTS, 0)
    assert await kept_usecases.count_open(shop.context.pool) == {"contradiction": 1}
    await check_books(shop.live)


@pytest.mark.parametrize("is_read_first", [True, False])
async def test_a_successor_pays_nothing_forgotten_again(shop: Shop, *, is_read_first: bool) -> None:
    sent = await forget_order(shop, "t1", 400)
    await note_loss(shop)
    operator, banco = as_operator(shop.live.context), await open_banco(shop)
    done = await succeed_holder(operator, shop.house.holder_id, "banco", "77", "0001")
    heir = structs.replace(shop, account=banco, house=structs.replace(shop.house, holder_id=done.heir.id))
    await heir.allow_sending()
    shop.there.received.clear()
    heir.pay(RECEIVED_CENTS, key=own_key("1"))
    await heir.read()
    assert await read_funds(shop.live, heir.house) == (RECEIVED_CENTS, 0)
    await pay_only_what_was_not_forgotten(shop, sent, heir, is_read_first=is_read_first)


async def pay_only_what_was_not_forgotten(over: Shop, sent: Transfer, repeats: Shop, *, is_read_first: bool) -> None:
    """The client repeats the request that was forgotten, before or after its line is read, and makes another one."""
    if is_read_first:
        await tell_line(over, sent)
    else:
        forgets = f"lost_at = now(), state = 'paused', paused_because = 'loss' where id = {over.account.id}"
        await over.live.execute_as_owner(f"update institution_account set {forgets}")
    with pytest.raises(errors.OutcomeUnknown, match="external_id 't1'"):
        await ask(repeats, "t1", 400)
    if is_read_first:
        assert await end(repeats, await ask(repeats, "t2", 399)) == "CONFIRMED"
    assert over.there.paid_cents == 400 + (399 if is_read_first else 0)


@pytest.mark.parametrize("is_read_first", [True, False])
async def test_the_former_one_pays_nothing_forgotten_again(shop: Shop, *, is_read_first: bool) -> None:
    """The succession itself is lost: the client is the former holder's again, and repeats its request."""
    await shop.allow_sending()
    banco = await open_banco(shop)
    await shop.receive(RECEIVED_CENTS)
    shop.live.clock.advance(minutes=1)
    over = structs.replace(shop, account=banco)
    sent = await send_unknown(over, "t1", 400)
    await note_loss(shop)
    await pay_only_what_was_not_forgotten(over, sent, shop, is_read_first=is_read_first)


async def test_the_accounts_of_other_owners_stop_nobody(shop: Shop) -> None:
    await shop.allow_sending()
    banco = await open_banco(shop)
    await shop.receive(RECEIVED_CENTS)
    shop.live.clock.advance(minutes=1)
    sent = await send_unknown(structs.replace(shop, account=banco), "t1", 400)
    await note_loss(shop)
    await tell_line(structs.replace(shop, account=banco), sent)
    await shop.live.execute_as_owner(f"update institution_account set tax_id = '11222333000181' where id = {banco.id}")
    assert await end(shop, await ask(shop, "t1", 400)) == "CONFIRMED"


@pytest.mark.parametrize("is_back", [True, False])
async def test_a_successor_under_another_id_finds_what_its_family_paid(shop: Shop, *, is_back: bool) -> None:
    """A company is back at its first bank; or its succession was lost, and done again."""
    await shop.allow_sending()
    operator, banco = as_operator(shop.live.context), await open_banco(shop)
    shop.live.clock.advance(minutes=1)
    account = shop.account if is_back else banco
    sent = await send_unknown(structs.replace(shop, account=account), "t1", 400)
    await note_loss(shop)
    done = await succeed_holder(operator, shop.house.holder_id, "banco", "77", "0001")
    if is_back:
        done = await succeed_holder(operator, done.heir.id, shop.account.name, "78", "0001")
    heir = structs.replace(shop, account=account, house=structs.replace(shop.house, holder_id=done.heir.id))
    await heir.allow_sending()
    heir.pay(RECEIVED_CENTS, key=own_key("1"))
    await heir.read()
    asked = await ask(heir, "t1", 400)
    await tell_line(heir, sent)
    assert await end(heir, asked) == "CONFIRMED"
    assert shop.there.paid_cents == 400


async def test_a_line_that_was_recorded_before_the_loss_makes_no_request_doubtful(shop: Shop) -> None:
    await shop.allow_sending()
    banco = structs.replace(shop, account=await open_banco(shop))
    await shop.receive(RECEIVED_CENTS)
    shop.live.clock.advance(minutes=1)
    await tell_line(banco, await send_unknown(banco, "by hand", 400))
    shop.live.clock.advance(hours=2)
    await note_loss(shop)
    assert await end(shop, await ask(shop, "t1", 400)) == "CONFIRMED"


@pytest.mark.parametrize("is_account", [True, False])
async def test_what_was_added_again_after_the_loss_does_not_pay_again(shop: Shop, *, is_account: bool) -> None:
    """The copy is older than the account or the holder, so the institution has the lost order under another name."""
    await shop.allow_sending()
    shop.there.balance_cents = RECEIVED_CENTS
    if not is_account:
        banco = await open_banco(shop)
    payee = structs.replace(UNKNOWN_PARTY, key=KEY)
    order = OutgoingPix(name="f" * 32, amount_cents=400, payer_key=None, payee=payee, is_by_key=True)
    sent = await shop.there.send(order)
    assert isinstance(sent, SentPix)
    await note_loss(shop)
    shop.live.clock.advance(minutes=1)
    if is_account:
        banco = await open_banco(shop)
        operator = as_operator(shop.live.context)
        done = await succeed_holder(operator, shop.house.holder_id, "banco", "77", "0001")
        holder_id = done.heir.id
    else:
        holder_id = await make_owner(shop.live, "2")
        await move_holder(as_operator(shop.live.context), holder_id, "banco")
    again = structs.replace(shop, account=banco, house=structs.replace(shop.house, holder_id=holder_id))
    await again.allow_sending()
    again.pay(RECEIVED_CENTS, key=own_key("1" if is_account else "2"))
    await again.read()
    await tell_line(again, sent)
    with pytest.raises(errors.OutcomeUnknown, match="external_id 't1'"):
        await ask(again, "t1", 400)
    assert await end(again, await ask(again, "t2", 399)) == "CONFIRMED"
    assert shop.there.paid_cents == 400 + 399


async def open_of_two(shop: Shop) -> Shop:
    """Another holder on the account, who sent the forgotten order and has its money still."""
    holder_id = await make_owner(shop.live, "2")
    await move_holder(as_operator(shop.live.context), holder_id, "loja")
    other = structs.replace(shop, house=structs.replace(shop.house, holder_id=holder_id))
    await other.allow_sending()
    await other.receive(RECEIVED_CENTS, key=own_key("2"))
    shop.live.clock.advance(minutes=1)
    sent = await send_unknown(other, "t1", 400)
    await note_loss(shop)
    await tell_line(shop, sent)
    return other


async def list_day_cases(shop: Shop) -> list[Case]:
    shop.live.clock.advance(days=1)
    await case_usecases.look_for_cases(shop.live.context)
    return [one.case for one in await case_usecases.list_cases(shop.live.context)]


async def test_a_forgotten_transfer_that_nobody_repeats_is_assigned_to_its_holder(shop: Shop) -> None:
    other = await open_of_two(shop)
    assert await shop.live.fetch("select from movement where amount_cents = 400") == []
    (case,) = await list_day_cases(shop)
    assert (case.kind, case.amount_cents) == ("day", -400)
    ana, bia = (as_operator(shop.live.context, name) for name in ("ana", "bia"))
    await open_banco(shop)
    elsewhere = await make_owner(shop.live, "3")
    with pytest.raises(errors.BadRequest, match=f"holder {elsewhere} does not lie on the account loja"):
        await propose_answer(ana, WantedAnswer(case_id=case.id, counts=["L1"], holder_id=elsewhere))
    said = await propose_answer(ana, WantedAnswer(case_id=case.id, counts=["L1"], holder_id=other.house.holder_id))
    assert (said.contents["holder_id"], said.contents["change_cents"]) == (other.house.holder_id, -400)
    await confirm_waiting(bia, shop.live.context, "loja")
    funds = [await read_funds(shop.live, one.house) for one in (shop, other)]
    assert (funds, await list_day_cases(shop)) == ([(0, 0), (600, 0)], [])
    # The caller repeats it after all: the movement is taken back.
    assert await end(other, await ask(other, "t1", 400)) == "CONFIRMED"
    assert (await read_funds(shop.live, other.house), shop.there.paid_cents) == ((600, 0), 400)
    await check_books(shop.live)


async def test_a_forgotten_transfer_whose_line_waits_is_joined_when_it_is_repeated(shop: Shop) -> None:
    other = await open_of_two(shop)
    assert await end(other, await ask(other, "t1", 400)) == "CONFIRMED"
    await settle_items(shop.at, shop.account)
    assert (await read_funds(shop.live, other.house), await list_day_cases(shop)) == ((600, 0), [])
    await check_books(shop.live)


async def test_an_account_added_again_pays_only_after_the_forgotten_days_are_read(live: Service) -> None:
    """Its books begin on the day on which it is added, and the lost order left before."""
    shop = await open_shop(live, FakeInstitution(live.clock, InstitutionTraits(sends=("KEY",), has_statement=True)))
    shop.there.balance_cents = RECEIVED_CENTS
    payee = structs.replace(UNKNOWN_PARTY, key=KEY)
    order = OutgoingPix(name="f" * 32, amount_cents=400, payer_key=None, payee=payee, is_by_key=True)
    sent = await shop.there.send(order)
    assert isinstance(sent, SentPix)
    await note_loss(shop)
    shop.there.items.append(make_line(sent, live.clock.real_now()))
    live.clock.advance(days=2)
    banco = await open_banco(shop)
    done = await succeed_holder(as_operator(live.context), shop.house.holder_id, "banco", "77", "0001")
    again = structs.replace(shop, account=banco, house=structs.replace(shop.house, holder_id=done.heir.id))
    await again.allow_sending()
    again.pay(RECEIVED_CENTS)
    await again.read()
    # It is not known yet whether any request left before.
    for external_id, amount_cents in (("t1", 400), ("t2", 399)):
        with pytest.raises(errors.OutcomeUnknown, match=f"not read yet.*external_id '{external_id}'"):
            await ask(again, external_id, amount_cents)
    await sweep_statement(again.at, banco, shop.there)
    with pytest.raises(errors.OutcomeUnknown, match=r"a Pix of this amount left.*external_id 't1'"):
        await ask(again, "t1", 400)
    assert await end(again, await ask(again, "t2", 399)) == "CONFIRMED"
    assert shop.there.paid_cents == 400 + 399
    await check_books(live)
