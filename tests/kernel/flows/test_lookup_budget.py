"""Look-ups cost something unless a payment follows, so no caller can scan the directory or our accounts."""

import asyncio
from collections import Counter
from typing import Any, cast

import pytest
from msgspec import structs

from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.lookup_budget import LookupBudgets
from pixconnect.kernel.flows.settlement import end_orders
from pixconnect.kernel.rules import br_code
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.location import LocationUnreachable, OutsideCharge
from pixconnect.kernel.rules.rail import DirectoryEntry, Rejected, Settled
from pixconnect.kernel.rules.transfer import AccountTransferRequest, KeyTransferRequest, QrCodeTransferRequest, TransferRequest
from pixconnect.platform.base import errors
from support.records import FIRM, ISPB, outside_party, own_key
from support.service import STARTED_AT, FakeRail, Service, open_holder, send_out
from support.waiting import until

KNOWN_KEY = "loja@outside.example"


@pytest.fixture(autouse=True)
async def stopped(service: Service) -> None:
    service.clock.stand_still()


@pytest.fixture(autouse=True)
def outside(service: Service) -> None:
    party = outside_party(key=KNOWN_KEY)
    service.rail.entries[KNOWN_KEY] = DirectoryEntry(key=KNOWN_KEY, key_type="EMAIL", party=party)


def to_key(key: str, amount_cents: int = 1, external_id: str | None = None) -> KeyTransferRequest:
    return KeyTransferRequest(amount_cents=amount_cents, key=key, key_type="EMAIL", external_id=external_id)


def to_account(number: int) -> AccountTransferRequest:
    own = structs.replace(outside_party(account_number=str(number)), ispb=ISPB)
    return AccountTransferRequest(amount_cents=1, credit_party=own)


async def refusals(service: Service, caller: Caller, requests: list[TransferRequest]) -> list[str]:
    codes: list[str] = []
    for request in requests:
        try:
            await transfer_usecases.start_transfer(service.context, caller, request)
            codes.append("")
        except errors.Refusal as refusal:
            codes.append(refusal.code)
    return codes


async def test_a_scan_of_keys_ends_after_fifty_and_is_one_holders_own(service: Service) -> None:
    scanner, other = (await open_holder(service, tax_id=FIRM), await open_holder(service, account_number="2", funds_cents=100))
    asked = [to_key(f"nobody-{number}@outside.example") for number in range(60)]
    codes = await refusals(service, scanner, [*asked])
    assert codes == ["PIX_KEY_NOT_FOUND"] * 50 + ["RATE_LIMITED"] * 10
    assert await refusals(service, other, [to_key("nobody@outside.example"), to_key(KNOWN_KEY)]) == ["PIX_KEY_NOT_FOUND", ""]


async def test_a_natural_person_has_a_tenth_of_what_a_firm_has(service: Service) -> None:
    scanner = await open_holder(service)
    asked = [to_key(f"nobody-{number}@outside.example") for number in range(8)]
    assert await refusals(service, scanner, [*asked]) == ["PIX_KEY_NOT_FOUND"] * 5 + ["RATE_LIMITED"] * 3
    with pytest.raises(errors.RateLimited) as refused:
        await transfer_usecases.start_transfer(service.context, scanner, asked[0])
    assert refused.value.policy is not None
    assert (refused.value.policy.tokens_max, refused.value.retry_after_s) == (100, 30)


async def test_all_processes_spend_of_one_budget(service: Service) -> None:
    scanner = await open_holder(service, tax_id=FIRM)
    second = structs.replace(service, context=structs.replace(service.context, lookups=LookupBudgets()))
    asked = [to_key(f"nobody-{number}@outside.example") for number in range(20)]
    for process in (service, second) * 3:
        await refusals(process, scanner, [*asked[:8]])
        await until(lambda: is_told(service, second))
        service.clock.advance(seconds=1)  # after which each asks again
    # 48 misses cost 960 of 1,000 tokens, and two came back: the rest allows two more.
    assert (await refusals(second, scanner, [*asked[:4]])).count("PIX_KEY_NOT_FOUND") == 3
    await until(lambda: is_told(service, second))
    service.clock.advance(seconds=1)
    assert (await refusals(service, scanner, [*asked[:4]])) == ["RATE_LIMITED"] * 4


async def test_what_is_left_survives_the_process(service: Service) -> None:
    scanner = await open_holder(service, tax_id=FIRM)
    asked = [to_key(f"nobody-{number}@outside.example") for number in range(60)]
    await refusals(service, scanner, [*asked])
    await until(lambda: is_told(service))
    restarted = structs.replace(service, context=structs.replace(service.context, lookups=LookupBudgets()))
    assert await refusals(restarted, scanner, [*asked[:1]]) == ["RATE_LIMITED"]
    policy, left = await restarted.context.lookups.read_left(restarted.context, scanner.holder_id)
    assert (policy.tokens_max, left) == (1000, 0)


async def test_a_payment_gives_back_once_whichever_process_counts_it(service: Service) -> None:
    caller = await open_holder(service, tax_id=FIRM, funds_cents=2000)
    second = structs.replace(service, context=structs.replace(service.context, lookups=LookupBudgets()))
    nobody = to_key("nobody@outside.example")
    await refusals(service, caller, [nobody])
    for end_to_end_id in [await send(service, caller) for _ in range(11)]:
        await end_orders(service.context, [(end_to_end_id, Settled(settled_at=STARTED_AT))])
    await refusals(service, caller, [nobody] * 50)
    await until(lambda: is_told(service))
    service.clock.advance(seconds=1)
    passed = await asyncio.gather(*(refusals(process, caller, [nobody]) for process in (service, second)))
    assert ["PIX_KEY_NOT_FOUND"] in passed
    await until(lambda: is_told(service, second))
    left = await service.context.pool.fetchval("select tokens from lookup_budget")
    # Twenty were owed, and 22 were given back, once; each look-up after the last two cost twenty.
    assert round(left) in (2 - 20, 2 - 40)


def is_told(*processes: Service) -> bool:
    return not any(
        budget.unreported or budget.reporting for process in processes for budget in process.context.lookups._budgets.values()
    )


async def test_what_is_left_is_known_once_something_was_spent(service: Service) -> None:
    scanner, lookups = await open_holder(service), service.context.lookups
    assert lookups.recall_left(service.context, scanner.holder_id) is None
    await refusals(service, scanner, [to_key("nobody@outside.example")])
    policy, tokens, reset_s = errors.require(lookups.recall_left(service.context, scanner.holder_id), "20 were spent")
    assert (policy.tokens_max, tokens, reset_s) == (100, 80, 600)


async def test_a_scan_of_our_own_accounts_ends_too(service: Service) -> None:
    scanner = await open_holder(service, tax_id=FIRM)
    codes = await refusals(service, scanner, [to_account(number) for number in range(500, 560)])
    assert codes == ["INVALID_ACCOUNT"] * 50 + ["RATE_LIMITED"] * 10


async def test_what_is_found_and_not_paid_costs_little_and_what_is_paid_nothing(service: Service) -> None:
    scanner = await open_holder(service, tax_id=FIRM, funds_cents=2000)
    await open_holder(service, account_number="2")
    asked: list[TransferRequest] = [to_key(KNOWN_KEY, amount_cents=10_000)] * 7 + [to_key(own_key("2"), 10_000)] * 3
    assert await refusals(service, scanner, asked) == ["INSUFFICIENT_FUNDS"] * 10
    assert await refusals(service, scanner, [to_key(KNOWN_KEY)] * 30) == [""] * 30
    asked = [to_key(f"nobody-{number}@outside.example") for number in range(60)]
    codes = await refusals(service, scanner, asked)
    assert codes == ["PIX_KEY_NOT_FOUND"] * 50 + ["RATE_LIMITED"] * 10


async def test_time_and_payments_that_settle_put_tokens_back(service: Service) -> None:
    caller = await open_holder(service, tax_id=FIRM, funds_cents=2000)
    nobody = to_key("nobody@outside.example")
    assert (await refusals(service, caller, [nobody] * 51))[-2:] == ["PIX_KEY_NOT_FOUND", "RATE_LIMITED"]
    with pytest.raises(errors.RateLimited) as refused:
        await transfer_usecases.start_transfer(service.context, caller, nobody)
    assert refused.value.retry_after_s == 3
    service.clock.advance(seconds=3)  # one token is back
    assert await refusals(service, caller, [nobody] * 2) == ["PIX_KEY_NOT_FOUND", "RATE_LIMITED"]
    sent = [await send(service, caller) for _ in range(12)]
    # Payments restore no more than is owed, so the spending has to be written first.
    await until(lambda: is_told(service))
    for end_to_end_id in sent[:11]:  # that are worth 22 tokens, of which 19 are owed
        await end_orders(service.context, [(end_to_end_id, Settled(settled_at=STARTED_AT))])
    await end_orders(service.context, [(sent[11], Rejected(code="AC03", reason="no such account"))])
    await until(lambda: is_told(service))
    service.clock.advance(seconds=1)
    assert await refusals(service, caller, [nobody] * 2) == ["PIX_KEY_NOT_FOUND", "RATE_LIMITED"]
    service.clock.advance(seconds=1)  # they are counted once
    assert await refusals(service, caller, [nobody]) == ["RATE_LIMITED"]


async def send(service: Service, caller: Caller) -> str:
    service.clock.advance(milliseconds=1)
    return (await send_out(service, caller, 1)).end_to_end_id


async def test_a_replay_is_answered_whatever_was_looked_up(service: Service) -> None:
    caller = await open_holder(service, tax_id=FIRM, funds_cents=2000)
    await open_holder(service, account_number="2")
    paid = to_key(own_key("2"), external_id="n1")
    before = await transfer_usecases.start_transfer(service.context, caller, paid)
    await refusals(service, caller, [to_key("nobody@outside.example")] * 51)
    assert await transfer_usecases.start_transfer(service.context, caller, paid) == before


def to_location(location: str) -> QrCodeTransferRequest:
    code = br_code.format_dynamic_br_code(location, "Loja", "Recife")
    return QrCodeTransferRequest(amount_cents=1, br_code=code)


class Trap:
    """Locations that each fail as chosen, and count their readers."""

    def __init__(self, outcome: Exception | None) -> None:
        self.outcome = outcome
        self.asked_count = 0

    async def read(self, location: str) -> OutsideCharge:
        self.asked_count += 1
        if self.outcome is None:
            await asyncio.sleep(10)
        raise self.outcome or LocationUnreachable("too late")


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (errors.InvalidQrCode("emv: what its location serves is not signed"), "INVALID_QR_CODE"),
        (LocationUnreachable("refused"), "SERVICE_UNAVAILABLE"),
    ],
)
async def test_a_caller_that_leads_nowhere_is_out_of_tokens(service: Service, outcome: Exception, code: str) -> None:
    caller = await open_holder(service, tax_id=FIRM, funds_cents=100)
    trap = Trap(outcome)
    one = structs.replace(service, context=structs.replace(service.context, locations=trap))
    codes = await refusals(one, caller, [to_location(f"trap.example/{number}") for number in range(60)])
    assert codes == [code] * 50 + ["RATE_LIMITED"] * 10
    assert trap.asked_count == 50


class SlowDirectory:
    """A directory that answers after 20 ms, once it may."""

    def __init__(self, rail: FakeRail) -> None:
        self.asked_count = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self._rail = rail

    def __getattr__(self, name: str) -> object:
        return getattr(self._rail, name)

    async def lookup_key(self, key: str, payer_tax_id: str, end_to_end_id: str) -> DirectoryEntry | None:
        self.asked_count += 1
        await asyncio.sleep(0.02)
        await self.may_answer.wait()
        return await self._rail.lookup_key(key, payer_tax_id, end_to_end_id)


@pytest.mark.parametrize(
    ("asked", "left"), [(to_location("trap.example/1"), 0), (to_key("nobody@outside.example"), 0), (to_key(KNOWN_KEY), 95)]
)
async def test_who_hangs_up_while_we_ask_has_paid_for_what_is_found(
    service: Service, asked: TransferRequest, left: int
) -> None:
    caller = await open_holder(service, funds_cents=100)
    trap, directory = Trap(None), SlowDirectory(service.rail)
    directory.may_answer.clear()
    context = structs.replace(service.context, locations=trap, rail=cast(Any, directory))
    asking = [asyncio.create_task(transfer_usecases.start_transfer(context, caller, asked)) for _ in range(6)]
    await until(lambda: trap.asked_count + directory.asked_count == 5)  # the sixth waits, and costs nothing
    for each in reversed(asking):
        each.cancel()
    directory.may_answer.set()
    await asyncio.wait(asking)
    assert all(each.cancelled() for each in asking)
    assert (await context.lookups.read_left(context, caller.holder_id))[1] == left
    assert trap.asked_count + directory.asked_count == 5


async def test_a_parallel_scan_over_two_processes_gets_hardly_more(service: Service) -> None:
    scanner = await open_holder(service)
    directory = SlowDirectory(service.rail)
    first, second = (
        structs.replace(service, context=structs.replace(service.context, rail=cast(Any, directory), lookups=LookupBudgets()))
        for _ in range(2)
    )
    asked = [to_key(f"nobody-{number}@outside.example") for number in range(200)]
    codes = await asyncio.gather(*(refusals(one, scanner, [each]) for each in asked for one in (first, second)))
    # Five in each: a process sees the other's spending a second later.
    assert directory.asked_count <= 10
    assert Counter(code for (code,) in codes) == {
        "PIX_KEY_NOT_FOUND": directory.asked_count,
        "RATE_LIMITED": 400 - directory.asked_count,
    }


async def test_who_pays_all_in_parallel_is_never_refused(service: Service) -> None:
    payer = await open_holder(service, funds_cents=10_000)
    directory = SlowDirectory(service.rail)
    one = structs.replace(service, context=structs.replace(service.context, rail=cast(Any, directory), lookups=LookupBudgets()))
    codes = await asyncio.gather(*(refusals(one, payer, [to_key(KNOWN_KEY)]) for _ in range(200)))
    assert Counter(code for (code,) in codes) == {"": 200}
    policy, left = await one.context.lookups.read_left(one.context, payer.holder_id)
    assert left == policy.tokens_max
