"""Looking somebody up costs something, unless it is paid: nobody scans the directory or our accounts."""

import asyncio

import pytest
from msgspec import structs

from pixconnect.domain.frame import errors
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.money import br_code
from pixconnect.domain.money.outside_location import LocationUnreachable, OutsideCharge
from pixconnect.domain.money.rail import DirectoryEntry, Rejected, Settled
from pixconnect.domain.money.transfer import (
    AccountTransferRequest,
    KeyTransferRequest,
    QrCodeTransferRequest,
    TransferRequest,
)
from pixconnect.usecases.money import transfer as transfer_usecases
from pixconnect.usecases.money.settlement import end_orders
from support.records import ISPB, outside_party, own_key
from support.service import STARTED_AT, Service, open_holder

KNOWN_KEY = "loja@outside.example"


class Stopped:
    """The clock of rates, which goes on when a test says so."""

    now_s = 0.0


@pytest.fixture(autouse=True)
def stopped(service: Service, monkeypatch: pytest.MonkeyPatch) -> Stopped:
    clock = Stopped()
    monkeypatch.setattr(service.clock, "monotonic_s", lambda: clock.now_s)
    return clock


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
    scanner, other = await open_holder(service), await open_holder(service, account_number="2", funds_cents=100)
    asked = [to_key(f"nobody-{number}@outside.example") for number in range(60)]
    codes = await refusals(service, scanner, [*asked])
    assert codes == ["PIX_KEY_NOT_FOUND"] * 50 + ["RATE_LIMITED"] * 10
    assert await refusals(service, other, [to_key("nobody@outside.example"), to_key(KNOWN_KEY)]) == [
        "PIX_KEY_NOT_FOUND",
        "",
    ]


async def test_a_scan_of_our_own_accounts_ends_too(service: Service) -> None:
    scanner = await open_holder(service)
    codes = await refusals(service, scanner, [to_account(number) for number in range(500, 560)])
    assert codes == ["INVALID_ACCOUNT"] * 50 + ["RATE_LIMITED"] * 10


async def test_what_is_found_and_not_paid_costs_little_and_what_is_paid_nothing(service: Service) -> None:
    scanner = await open_holder(service, funds_cents=2000)
    await open_holder(service, account_number="2")
    asked: list[TransferRequest] = [to_key(KNOWN_KEY, amount_cents=10_000)] * 7 + [to_key(own_key("2"), 10_000)] * 3
    assert await refusals(service, scanner, asked) == ["INSUFFICIENT_FUNDS"] * 10
    assert await refusals(service, scanner, [to_key(KNOWN_KEY)] * 30) == [""] * 30
    asked = [to_key(f"nobody-{number}@outside.example") for number in range(60)]
    codes = await refusals(service, scanner, asked)
    assert codes == ["PIX_KEY_NOT_FOUND"] * 50 + ["RATE_LIMITED"] * 10


async def test_time_and_payments_that_settle_put_tokens_back(service: Service, stopped: Stopped) -> None:
    caller = await open_holder(service, funds_cents=2000)
    nobody = to_key("nobody@outside.example")
    assert (await refusals(service, caller, [nobody] * 51))[-2:] == ["PIX_KEY_NOT_FOUND", "RATE_LIMITED"]
    with pytest.raises(errors.RateLimited) as refused:
        await transfer_usecases.start_transfer(service.context, caller, nobody)
    assert refused.value.retry_after_s == 3
    stopped.now_s += 3.0  # one token is back
    assert await refusals(service, caller, [nobody] * 2) == ["PIX_KEY_NOT_FOUND", "RATE_LIMITED"]
    sent = [await send(service, caller) for _ in range(12)]
    for end_to_end_id in sent[:11]:  # that are worth 22 tokens, of which 19 are owed
        await end_orders(service.context, [(end_to_end_id, Settled(settled_at=STARTED_AT))])
    await end_orders(service.context, [(sent[11], Rejected(code="AC03", reason="no such account"))])
    stopped.now_s += 1.0
    assert await refusals(service, caller, [nobody] * 2) == ["PIX_KEY_NOT_FOUND", "RATE_LIMITED"]
    stopped.now_s += 1.0  # they are counted once
    assert await refusals(service, caller, [nobody]) == ["RATE_LIMITED"]


async def send(service: Service, caller: Caller) -> str:
    service.clock.advance(seconds=1)
    outside = AccountTransferRequest(amount_cents=1, credit_party=outside_party())
    return (await transfer_usecases.start_transfer(service.context, caller, outside)).transfer.end_to_end_id


async def test_a_replay_is_answered_whatever_was_looked_up(service: Service) -> None:
    caller = await open_holder(service, funds_cents=2000)
    await open_holder(service, account_number="2")
    paid = to_key(own_key("2"), external_id="n1")
    before = await transfer_usecases.start_transfer(service.context, caller, paid)
    await refusals(service, caller, [to_key("nobody@outside.example")] * 51)
    assert await transfer_usecases.start_transfer(service.context, caller, paid) == before


async def test_no_limit_is_none(service: Service) -> None:
    caller = await open_holder(service)
    policy = structs.replace(service.context.policy, lookup_tokens_max=0)
    context = structs.replace(service.context, policy=policy)
    for _ in range(60):
        with pytest.raises(errors.PixKeyNotFound):
            await transfer_usecases.start_transfer(context, caller, to_key("nobody@outside.example"))


def to_location(location: str, external_id: str | None = None) -> QrCodeTransferRequest:
    code = br_code.format_dynamic_br_code(location, "Loja", "Recife")
    return QrCodeTransferRequest(amount_cents=1, br_code=code, external_id=external_id)


class Trap:
    """Locations that each fail as they are told to, and count who asked."""

    def __init__(self, outcome: Exception | None) -> None:
        self.outcome = outcome
        self.asked_count = 0
        self.is_asked = asyncio.Event()

    async def read(self, location: str) -> OutsideCharge:
        self.asked_count += 1
        self.is_asked.set()
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
async def test_who_leads_us_to_nothing_is_out_of_tokens_after_fifty_and_nobody_is_asked_any_more(
    service: Service, outcome: Exception, code: str
) -> None:
    caller = await open_holder(service, funds_cents=100)
    trap = Trap(outcome)
    context = structs.replace(service.context, locations=trap)
    codes: list[str] = []
    for number in range(60):
        with pytest.raises(errors.Refusal) as refused:
            await transfer_usecases.start_transfer(context, caller, to_location(f"trap.example/{number}"))
        codes.append(refused.value.code)
    assert codes == [code] * 50 + ["RATE_LIMITED"] * 10
    assert trap.asked_count == 50


async def test_who_hangs_up_while_we_ask_has_paid_for_it(service: Service) -> None:
    caller = await open_holder(service, funds_cents=100)
    trap = Trap(None)
    context = structs.replace(service.context, locations=trap)
    for number in range(50):
        trap.is_asked.clear()
        asking = asyncio.create_task(
            transfer_usecases.start_transfer(context, caller, to_location(f"trap.example/{number}"))
        )
        await trap.is_asked.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    with pytest.raises(errors.RateLimited):
        await transfer_usecases.start_transfer(context, caller, to_location("trap.example/last"))
    assert trap.asked_count == 50
