"""A transfer over an account is refused before its money is reserved, unless two operators have allowed it."""

from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from msgspec import structs

from pixconnect.features.allowances import service as allowance_usecases
from pixconnect.features.allowances.rules import Allowance, WantedAllowance, cut, want
from pixconnect.features.institutions.rules.institution import CertainRefusal, InstitutionTraits, NotSent
from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.handover import process_due_orders
from pixconnect.kernel.rules.transfer import AccountTransferRequest, KeyTransferRequest, SendingTerms, Transfer, TransferRequest
from pixconnect.platform.base import errors
from support.account_shop import Shop, open_shop, read_again
from support.books import check_books
from support.fake_institution import LOST_AFTER, LOST_BEFORE, OWNER_TAX_ID, FakeInstitution
from support.operators import as_operator
from support.proposals import confirm_waiting
from support.records import outside_party, own_key
from support.service import Service, no_fence, read_funds

KEY = "joana@pix.example"


@pytest.fixture
def there(live: Service) -> FakeInstitution:
    return FakeInstitution(live.clock, InstitutionTraits(sends=("KEY", "MANUAL"), compares_owner=True))


def to_key(amount_cents: int = 100, **changes: Any) -> KeyTransferRequest:
    return structs.replace(KeyTransferRequest(amount_cents=amount_cents, key=KEY, key_type="EMAIL"), **changes)


async def send(shop: Shop, request: TransferRequest, payee_tax_id: str | None = None) -> transfer_usecases.Transfer:
    terms = SendingTerms(payee_tax_id=payee_tax_id)
    return (await transfer_usecases.start_transfer(shop.context, shop.house, request, terms)).transfer


async def fill(shop: Shop, amount_cents: int = 10_000) -> None:
    await shop.receive(amount_cents)


async def test_nothing_is_sent_before_it_is_allowed(shop: Shop) -> None:
    await fill(shop)
    with pytest.raises(errors.LimitExceeded, match=r"amount: transfers .* up to 0 cents each"):
        await send(shop, to_key())
    assert await read_funds(shop.live, shop.house) == (10_000, 0)
    assert await shop.live.fetch("select from transfer where direction = 'OUT'") == []
    await check_books(shop.live)


async def test_what_is_allowed_holds_the_amount_the_day_and_the_payee(shop: Shop) -> None:
    await fill(shop)
    await shop.allow_sending(transfer_cents=500, transfers_day_cents=900, payees="own")
    with pytest.raises(errors.LimitExceeded, match="500 cents each"):
        await send(shop, to_key(501), OWNER_TAX_ID)
    with pytest.raises(errors.LimitExceeded, match=r"key: .* its owner alone"):
        await send(shop, to_key())
    with pytest.raises(errors.LimitExceeded, match=r"credit_party: .* its owner alone"):
        await send(shop, AccountTransferRequest(amount_cents=100, credit_party=outside_party()))
    sent = await send(shop, to_key(500, external_id="t1"), OWNER_TAX_ID)
    assert (sent.status, sent.own_key, sent.institution_id) == ("PROCESSING", "loja@test.example", shop.account.id)
    assert (sent.counterparty.key, sent.counterparty.tax_id, sent.counterparty.name) == (KEY, OWNER_TAX_ID, "-")
    own_tax_id = to_key(300, key=OWNER_TAX_ID, key_type="CNPJ")
    await send(shop, own_tax_id)
    with pytest.raises(errors.LimitExceeded, match="100 cents more today"):
        await send(shop, own_tax_id)
    assert (await send(shop, to_key(500, external_id="t1"), OWNER_TAX_ID)).id == sent.id, "a repetition is answered"
    assert await read_funds(shop.live, shop.house) == (9_200, 800)
    await check_books(shop.live)


async def test_who_was_paid_before_is_known_by_the_key_or_by_the_account(shop: Shop) -> None:
    await fill(shop)
    await shop.allow_sending()
    to_account = AccountTransferRequest(amount_cents=100, credit_party=outside_party())
    for request in (to_key(), to_account):
        await send(shop, request)
        await shop.move_orders()
    assert {one.status for one in shop.there.sent.values()} == {"settled"}
    await shop.allow_sending(payees="known")
    await send(shop, to_key())
    await send(shop, to_account)
    with pytest.raises(errors.LimitExceeded, match="already paid over it"):
        await send(shop, to_key(key="other@pix.example"))
    # A key that a caller gives with an account proves nothing.
    another = structs.replace(outside_party(), account_number="99", key=KEY, key_type="EMAIL")
    with pytest.raises(errors.LimitExceeded, match="already paid over it"):
        await send(shop, structs.replace(to_account, credit_party=another))
    await check_books(shop.live)


async def test_the_schema_holds_what_the_service_would_not(shop: Shop) -> None:
    await fill(shop)
    await shop.allow_sending(transfer_cents=1000, transfers_day_cents=1000)
    # Lowered between the check and the write.
    await shop.live.execute_as_owner(
        "create function lower_first() returns trigger language plpgsql as "
        "$$ begin update institution_allowance set transfer_cents = 99; return null; end $$"
    )
    await shop.live.execute_as_owner(
        "create trigger a_lower after insert on open_order for each row execute function lower_first()"
    )
    with pytest.raises(errors.PixConnectError):
        await send(shop, to_key(100))
    await shop.live.execute_as_owner("drop trigger a_lower on open_order")
    await shop.allow_sending(payees="own")
    await shop.live.execute_as_owner(
        "create or replace function hold_transfer_days(account_ids smallint[], on_day date) "
        "returns table (institution_id smallint, transfer_cents bigint, left_cents bigint, payees text, tax_id text) "
        "language sql as $$ select account_ids[1], 1000000, 1000000, 'all', '' $$"
    )
    with pytest.raises(errors.PixConnectError):
        await send(shop, to_key(100))
    assert await read_funds(shop.live, shop.house) == (10_000, 0)


async def test_whoever_is_named_as_owner_is_compared_or_it_is_not_sent(shop: Shop) -> None:
    await fill(shop)
    await shop.allow_sending()
    with pytest.raises(errors.PixKeyNotFound):
        await send(shop, to_key(key=OWNER_TAX_ID, key_type="CNPJ"), "52998224725")
    shop.there.traits = structs.replace(shop.there.traits, compares_owner=False)
    with pytest.raises(errors.PixKeyNotFound, match="compares"):
        await send(shop, to_key(), OWNER_TAX_ID)
    await send(shop, to_key())


async def test_the_payer_is_no_payee_and_a_pause_takes_nothing(live: Service, there: FakeInstitution) -> None:
    live.clock.stand_still()
    shop = await open_shop(live, there)
    await fill(shop)
    await shop.allow_sending()
    with pytest.raises(errors.SameAccount):
        await send(shop, to_key(key=own_key()))
    sent = await send(shop, to_key(external_id="t1"))
    await account_usecases.set_state(as_operator(shop.context), "loja", "paused")
    shop.live.clock.advance(seconds=2)
    with pytest.raises(errors.ServiceUnavailable, match="paused") as refused:
        await send(shop, to_key())
    assert refused.value.retry_after_s == 60
    assert (await send(shop, to_key(external_id="t1"))).id == sent.id


async def test_more_than_can_leave_in_time_is_not_accepted(shop: Shop) -> None:
    await fill(shop)
    await shop.allow_sending()
    shop.there.traits = structs.replace(shop.there.traits, sends_per_s=0.1)
    handover_s = shop.context.policy.handover_timeout_s
    for _ in range(int(0.1 * handover_s * 0.5)):
        await send(shop, to_key())
    with pytest.raises(errors.ServiceUnavailable, match="more transfers wait"):
        await send(shop, to_key())


async def test_a_raise_waits_for_another_operator_and_a_cut_beside_it_acts_at_once(shop: Shop) -> None:
    await shop.live.execute_as_owner("update institution_account set environment = 'production'")
    ana, rui = (as_operator(shop.live.context, name) for name in ("ana", "rui"))
    proposed = await allowance_usecases.allow(ana, "loja", WantedAllowance(payees="own"))
    assert proposed is not None
    assert proposed.contents == dict(refunds_day_cents=0, transfer_cents=10_000, transfers_day_cents=100_000, payees="own")
    for raised in ("transfer_cents = 1", "transfers_day_cents = 1", "payees = 'known'"):
        with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="raised by one person"):
            await shop.live.execute_as_owner(f"update institution_allowance set {raised}")
    shop.live.clock.advance(hours=1)
    await confirm_waiting(rui, shop.context, "loja")
    mixed = WantedAllowance(transfer_cents=5_000, payees="all")
    assert await allowance_usecases.allow(ana, "loja", mixed) is not None
    allowed = (await account_usecases.read_account(ana, "loja")).allowance
    assert (allowed.transfer_cents, allowed.payees, allowed.allowed_by) == (5_000, "own", "ana")
    shop.live.clock.advance(hours=1)
    await confirm_waiting(rui, shop.context, "loja")
    allowed = (await account_usecases.read_account(ana, "loja")).allowance
    assert (allowed.transfer_cents, allowed.transfers_day_cents, allowed.payees) == (5_000, 100_000, "all")
    verbs = [entry.verb for entry in await audit.list_entries(ana, count_max=5)]
    assert verbs == ["proposal confirm", *["institution allow"] * 2, "proposal confirm", "institution allow"]
    await check_books(shop.live)


async def test_the_hour_of_a_raise_passes_by_the_databases_clock(shop: Shop) -> None:
    await shop.live.execute_as_owner("update institution_account set environment = 'production'")
    ana, rui = (as_operator(shop.live.context, name) for name in ("ana", "rui"))
    clock = shop.live.clock
    clock.skew = timedelta(hours=-1)
    with pytest.raises(errors.ServiceUnavailable, match="clock of this machine"):
        await allowance_usecases.allow(ana, "loja", WantedAllowance(payees="all"))
    assert await allowance_usecases.allow(ana, "loja", WantedAllowance(transfer_cents=0)) is None, "less needs no clock"
    clock.skew = timedelta(0)
    assert await allowance_usecases.allow(ana, "loja", WantedAllowance(payees="all")) is not None
    clock.skew = timedelta(hours=1)
    clock.advance(hours=1)
    with pytest.raises(errors.ServiceUnavailable, match="clock of this machine"):
        await confirm_waiting(rui, shop.context, "loja")
    assert (await account_usecases.read_account(ana, "loja")).allowance.payees == "own"


@pytest.mark.parametrize(
    "replaced_by", [WantedAllowance(payees="all"), WantedAllowance(transfer_cents=100), WantedAllowance(transfer_cents=0), None]
)
async def test_confirming_a_replaced_proposal_is_told_so(shop: Shop, replaced_by: WantedAllowance | None) -> None:
    await shop.live.execute_as_owner("update institution_account set environment = 'production'")
    ana, rui, eva = (as_operator(shop.live.context, name) for name in ("ana", "rui", "eva"))
    proposed = await allowance_usecases.allow(ana, "loja", WantedAllowance(transfer_cents=5_000, payees="own"))
    assert proposed is not None
    shop.live.clock.advance(hours=1)
    # Between rui's reading and rui's act.
    if replaced_by is None:
        await confirm_waiting(eva, shop.context, "loja")
    else:
        await allowance_usecases.allow(ana, "loja", replaced_by)
    before = (await account_usecases.read_account(ana, "loja")).allowance
    with pytest.raises(errors.NotFound, match=f"{proposed.code} does not wait any more"):
        await allowance_usecases.allow_more(rui, shop.context, proposed)
    assert (await account_usecases.read_account(ana, "loja")).allowance == before


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        (WantedAllowance(), "give at least one"),
        (WantedAllowance(transfer_cents=-1), "per_transfer"),
        (WantedAllowance(transfers_day_cents=10**12), "per_day"),
    ],
)
def test_what_cannot_be_allowed_is_refused(wanted: WantedAllowance, field: str) -> None:
    with pytest.raises(errors.BadRequest, match=field):
        want(Allowance(institution_id=1, refunds_day_cents=0), wanted)


def test_sums_that_are_not_said_are_small_only_where_nothing_was_sent_before() -> None:
    none = Allowance(institution_id=1, refunds_day_cents=7)
    some = want(none, WantedAllowance(transfer_cents=1))
    assert (some.transfer_cents, some.transfers_day_cents, some.payees) == (1, 100_000, "own")
    assert want(some, WantedAllowance(payees="all")) == structs.replace(some, payees="all")
    assert want(none, WantedAllowance(transfer_cents=0)) == none
    assert want(none, WantedAllowance(refunds_day_cents=1)) == structs.replace(none, refunds_day_cents=1)
    assert cut(some, none) == none
    assert cut(none, some) == none


TRAITS = InstitutionTraits(sends=("KEY", "MANUAL"), resend_for=timedelta(seconds=60), resends_after_restart=False)


@pytest.fixture
async def by_code(live: Service) -> Shop:
    there = FakeInstitution(live.clock, TRAITS)
    there.tells_codes = True
    return await open_shop(live, there)


async def begin(shop: Shop, external_id: str | None = None) -> Transfer:
    await shop.allow_sending()
    await shop.receive(1000)
    return await shop.send(1000, external_id=external_id)


async def work(at: Context, shop: Shop, times: int = 6, seconds: int = 5) -> None:
    """The work of one process, each time a few seconds later."""
    for _ in range(times):
        await process_due_orders(at, no_fence, shop.account.id, shop.live.clock.now(), 16)
        shop.live.clock.advance(seconds=seconds)


async def read_code(shop: Shop, sent: Transfer) -> str | None:
    return await shop.live.fetchval(f"select code_there from rail_step where order_name = '{sent.end_to_end_id}'")


async def test_its_code_is_remembered_and_asked_about(by_code: Shop) -> None:
    there, sent = by_code.there, await begin(by_code)
    await work(by_code.at, by_code)
    ended = await read_again(by_code, sent)
    ((_, listed),) = there.sent.items()
    assert (ended.status, ended.shown_id) == ("CONFIRMED", listed.end_to_end_id)
    assert (await read_code(by_code, sent), set(there.asked)) == (listed.code, {listed.code})
    assert there.paid_cents == 1000
    await check_books(by_code.live)


async def test_what_waits_for_its_turn_is_looked_for_in_no_list(by_code: Shop) -> None:
    by_code.there.send_status = "under_way"
    first = await begin(by_code)
    at = by_code.at
    await work(at, by_code, times=1, seconds=1)
    second = await begin(by_code)
    await work(at, by_code, times=10, seconds=1)
    assert (len(by_code.there.calls), None in by_code.there.asked) == (1, False)
    by_code.there.end_sent("settled")
    await work(at, by_code, times=4, seconds=20)
    by_code.there.end_sent("settled")
    await work(at, by_code, times=4, seconds=20)
    assert {(await read_again(by_code, one)).status for one in (first, second)} == {"CONFIRMED"}
    assert by_code.there.paid_cents == 2000


@pytest.mark.parametrize("answers", [[LOST_BEFORE], [LOST_AFTER], [LOST_AFTER, NotSent(reason="429")]])
async def test_the_process_that_called_asks_by_the_same_call_again(by_code: Shop, answers: list[NotSent]) -> None:
    there = by_code.there
    there.is_listed = False
    there.send_answers = [*answers]
    sent = await begin(by_code)
    await work(by_code.at, by_code, times=12)
    assert (await read_again(by_code, sent)).status == "CONFIRMED"
    assert (there.paid_cents, len(there.calls), len(set(there.calls))) == (1000, len(answers) + 1, 1)
    assert None not in there.asked, "a list would tell it later"


async def test_a_certain_refusal_ends_it_though_no_list_can_be_read(by_code: Shop) -> None:
    there = by_code.there
    there.send_answers = [CertainRefusal(code="", reason="there is no such key", reject_code="CH16")]
    sent = await begin(by_code)
    there.is_reachable = False
    await work(by_code.at, by_code, times=1)
    ended = await read_again(by_code, sent)
    assert (ended.status, ended.outcome_code, len(there.calls)) == ("ERROR", "CH16", 1)
    assert await read_funds(by_code.live, by_code.house) == (1000, 0)


async def test_a_clock_that_is_set_back_makes_no_call_young_again(by_code: Shop) -> None:
    there, clock = by_code.there, by_code.live.clock
    clock.stand_still()
    there.send_answers = [LOST_AFTER]
    there.forgets_names = True
    sent, at = await begin(by_code), by_code.at
    await work(at, by_code, times=1, seconds=61)
    clock.real -= timedelta(seconds=55)
    await work(at, by_code)
    assert (there.paid_cents, len(there.calls)) == (1000, 1)
    assert (await read_again(by_code, sent)).status == "CONFIRMED"


async def test_what_is_called_again_leaves_within_the_minute_or_not_at_all(by_code: Shop) -> None:
    there, clock = by_code.there, by_code.live.clock
    clock.stand_still()
    there.send_answers = [LOST_AFTER]
    sent, at, began_s = await begin(by_code), by_code.at, clock.monotonic_s()
    there.is_listed = False
    await work(at, by_code, seconds=20)
    assert (await read_again(by_code, sent)).status == "CONFIRMED"
    assert there.not_after == [None, began_s + 60]


async def test_after_a_minute_it_is_not_called_again(by_code: Shop) -> None:
    there = by_code.there
    there.send_answers = [LOST_BEFORE]
    sent, at = await begin(by_code), by_code.at
    await work(at, by_code, times=1, seconds=61)
    await work(at, by_code, times=8, seconds=400)
    assert (len(there.calls), (await read_again(by_code, sent)).status) == (1, "PROCESSING")


@pytest.mark.parametrize("lost", [LOST_BEFORE, LOST_AFTER])
async def test_another_process_calls_nothing_and_finds_it_listed(by_code: Shop, lost: NotSent | object) -> None:
    there = by_code.there
    there.is_listed = False
    there.send_answers = [LOST_BEFORE if lost is LOST_BEFORE else LOST_AFTER]
    sent = await begin(by_code)
    await work(by_code.at, by_code, times=1)
    await work(by_code.at, by_code, times=4)
    assert (len(there.calls), (await read_again(by_code, sent)).status) == (1, "PROCESSING")
    there.is_listed = True
    await work(by_code.at, by_code, times=4, seconds=400)
    assert (await read_again(by_code, sent)).status == ("PROCESSING" if lost is LOST_BEFORE else "CONFIRMED")
    assert len(there.calls) == 1
    await check_books(by_code.live)


async def test_a_restored_database_finds_a_forgotten_order_before_it_sends(by_code: Shop) -> None:
    there = by_code.there
    sent = await begin(by_code, "t1")
    await work(by_code.at, by_code)
    await _note_loss(by_code)
    again = await begin(by_code)
    # The request is repeated under its name, to a database without the first one.
    step = (await by_code.memory.open([again.end_to_end_id]))[again.end_to_end_id]
    ((_, listed),) = there.sent.items()
    there.sent[step.name_there or ""] = structs.replace(listed, end_to_end_id=f"E{'7' * 31}")
    there.forgets_names = True
    calls_count = len(there.calls)
    await work(by_code.at, by_code)
    assert (await read_again(by_code, again)).status == (await read_again(by_code, sent)).status == "CONFIRMED"
    assert (len(there.calls), there.paid_cents) == (calls_count, 1000)


async def _note_loss(shop: Shop) -> None:
    """Nothing was open at it, and the account was recovered since."""
    await shop.live.execute_as_owner(
        "insert into database_loss (reason, system_identifier, orders_count) values ('another timeline', 1, 0); "
        "update institution_account set lost_at = null, state = 'active', paused_because = null"
    )


async def test_a_second_code_under_one_name_ends_nothing(by_code: Shop) -> None:
    there = by_code.there
    there.send_status = "under_way"
    sent = await begin(by_code)
    await work(by_code.at, by_code, times=2)
    there.end_sent("settled")
    ((name, listed),) = there.sent.items()
    there.sent[name] = structs.replace(listed, code="another")
    await work(by_code.at, by_code, times=3, seconds=400)
    assert (await read_again(by_code, sent)).status == "PROCESSING", "a person has to look"
    assert await read_code(by_code, sent) == listed.code


@pytest.mark.parametrize("decision", ["settled", "refused"])
async def test_an_order_that_needs_a_person_waits_for_days(by_code: Shop, decision: str) -> None:
    there = by_code.there
    there.send_status = "under_way"
    sent = await begin(by_code)
    await work(by_code.at, by_code, times=5, seconds=50_000)
    assert (await read_again(by_code, sent)).status == "PROCESSING"
    await account_usecases.set_state(as_operator(by_code.context), "loja", "paused")
    await account_usecases.set_state(as_operator(by_code.context), "loja", "active")
    assert await read_funds(by_code.live, by_code.house) == (0, 1000)
    there.end_sent("settled" if decision == "settled" else "refused")
    await work(by_code.at, by_code, times=2, seconds=400)
    is_paid = decision == "settled"
    assert (await read_again(by_code, sent)).status == ("CONFIRMED" if is_paid else "ERROR")
    assert await read_funds(by_code.live, by_code.house) == (0 if is_paid else 1000, 0)
    assert len(there.calls) == 1
    await check_books(by_code.live)
