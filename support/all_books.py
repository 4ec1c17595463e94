"""Books with rows of every kind, made by the service itself: on the rail, and on an account at an institution.

Damage is planted in them. Every name in them has ``MARK`` near its end, so that ``support/multiplied_books.py`` can
copy their holders many times.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date, timedelta
from typing import Any, Final

from msgspec import Struct, structs

from pixconnect.features.contests.service.infraction import receive_infraction
from pixconnect.features.identity.service import access as access_usecases
from pixconnect.features.identity.service import console_session
from pixconnect.features.institutions.rules.institution import InstitutionItem, ListedRefund
from pixconnect.features.institutions.service import day as day_usecases
from pixconnect.features.institutions.service.statement import settle_items
from pixconnect.features.institutions.service.statement_sweep import note_listed, record_listed
from pixconnect.features.lots import service as lot_usecases
from pixconnect.features.lots.rules import WantedItem
from pixconnect.features.lots.service import NewItem, do_due_items
from pixconnect.features.movements.service import receive_blocks, receive_movement
from pixconnect.features.pix_api import tables as pix_store
from pixconnect.features.pix_api.service import charge as standard_usecases
from pixconnect.features.pix_api.service import key_webhook as key_webhook_usecases
from pixconnect.features.proof.service.verify import chain_audit
from pixconnect.features.webhooks.rules.endpoint import EndpointRequest
from pixconnect.features.webhooks.service import endpoint as endpoint_usecases
from pixconnect.features.webhooks.service.feed import give_positions
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import holder as holder_usecases
from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.handover import move_due
from pixconnect.kernel.flows.holder import HolderChanges
from pixconnect.kernel.flows.incoming import receive_credit, receive_return
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.flows.settlement import end_orders
from pixconnect.kernel.rules.access import SCOPES, Caller
from pixconnect.kernel.rules.block_report import BlockReport, BlockTerms
from pixconnect.kernel.rules.charge import ChargeRequest
from pixconnect.kernel.rules.charge_contents import ChargeContents, ContentsChange, DueChange, DueTerms, Rebate
from pixconnect.kernel.rules.event import SANDBOX_CAUSES
from pixconnect.kernel.rules.kept_report import Misfit
from pixconnect.kernel.rules.order import Ending, GivenUp
from pixconnect.kernel.rules.rail import Rejected, ReturnReport, Settled, SettledReport
from pixconnect.kernel.rules.refund import RefundRequest
from pixconnect.kernel.rules.transfer import AccountTransferRequest, KeyTransferRequest, Transfer
from pixconnect.platform.base.clock import to_day
from support.account_shop import NO_LIMITS, Shop, open_shop
from support.fake_institution import FakeInstitution
from support.operators import as_operator
from support.postgres import Addresses, make_live
from support.records import OUTSIDE_ISPB, a_new_holder, outside_party
from support.service import (
    CountedEntropy,
    FakeClock,
    Service,
    accepted,
    credit_report,
    decided,
    held,
    infraction_report,
    movement_report,
    no_fence,
    open_service,
)

MARK: Final = "zzzzzzz"
SELLER, BUYER, DEBTOR = "21", "22", "23"


class MarkedEntropy(CountedEntropy):
    """Random tokens, all with the mark before their last character."""

    def token(self, length: int) -> str:
        drawn = super().token(length)
        return drawn[: length - len(MARK) - 1] + MARK + drawn[-1]


class AllBooks(Struct, frozen=True, kw_only=True):
    shop: Shop
    seller: Caller
    buyer: Caller
    debtor: Caller

    @property
    def live(self) -> Service:
        return self.shop.live

    @property
    def holder_ids(self) -> list[int]:
        """The holders with their money on the rail."""
        return [caller.holder_id for caller in (self.seller, self.buyer, self.debtor)]


@asynccontextmanager
async def open_all_books(database: Addresses, clock: FakeClock | None = None) -> AsyncIterator[AllBooks]:
    await make_live(database)
    async with open_service(database, is_sandbox=False, clock=clock) as opened:
        context = structs.replace(opened.context, entropy=MarkedEntropy())
        live = structs.replace(opened, context=context)
        there = FakeInstitution(live.clock)
        there.balance_cents = 10_000
        shop = await open_shop(live, there)
        books = AllBooks(
            shop=shop,
            seller=await _open_holder(live, SELLER),
            buyer=await _open_holder(live, BUYER),
            debtor=await _open_holder(live, DEBTOR),
        )
        await _let_watch(books)
        live.clock.advance(minutes=5)
        await _trade(books)
        await _owe(books)
        await _block(books)
        await _charge(books)
        await _at_account(books)
        await _act(books)
        live.clock.advance(days=1)
        await pix_store.count_hours(live.context.pool, books.seller.holder_id, live.clock.now())
        await give_positions(live.context)
        while await chain_audit(live.context):
            pass
        yield books


def marked_key(number: str) -> str:
    return f"holder-{number}-{MARK}@test.example"


async def _open_holder(live: Service, number: str) -> Caller:
    operator = as_operator(live.context)
    new = structs.replace(a_new_holder(account_number=number), **NO_LIMITS)
    holder = await holder_usecases.create_holder(operator, new)
    await holder_usecases.add_pix_key(operator, holder.id, "EMAIL", marked_key(number))
    await access_usecases.create_client(operator, holder.id, "Shop", list(SCOPES), client_id=f"shop-{number}-{MARK}")
    caller = Caller(client_id=f"shop-{number}-{MARK}", holder_id=holder.id, scopes=frozenset(SCOPES), token_id="t")
    for cents in (500_000_000, 100_000_000):
        await holder_usecases.set_holder(operator, holder.id, HolderChanges(day_limit_cents=cents))
    return caller


async def _let_watch(books: AllBooks) -> None:
    context = books.live.context
    wanted = EndpointRequest(
        url=f"https://{MARK}.example/hook",
        secret="a secret for tests only",
        event_types=sorted(SANDBOX_CAUSES),
    )
    await endpoint_usecases.create_endpoint(context, books.seller, wanted)
    await key_webhook_usecases.set_webhook(context, books.seller, marked_key(SELLER), f"https://{MARK}.example/pix")


async def receive(books: AllBooks, number: str = SELLER, **changes: Any) -> str:
    report = credit_report(books.live, account_number=number, **changes)
    report = structs.replace(report, credit_party=structs.replace(report.credit_party, key=marked_key(number)))
    assert (await receive_credit(books.live.context, report)).refusal_code is None
    return report.end_to_end_id


async def _send(books: AllBooks, ending: Ending | None, amount_cents: int) -> Transfer:
    context = books.live.context
    request = AccountTransferRequest(
        amount_cents=amount_cents, credit_party=outside_party(), external_id=f"order-{amount_cents}-{MARK}"
    )
    made = (await transfer_usecases.start_transfer(context, books.seller, request)).transfer
    if isinstance(ending, GivenUp):
        books.live.clock.advance(minutes=2)
    else:
        now = books.live.clock.now()
        await move_due(context, no_fence, range(256), now - timedelta(days=1), now, 256)
    if ending is not None:
        await end_orders(context, [(made.end_to_end_id, ending)])
    return made


async def _give_back(books: AllBooks, name: str, ending: Ending | None, amount_cents: int) -> None:
    context, now = books.live.context, books.live.clock.now()
    request = RefundRequest(end_to_end_id=name, amount_cents=amount_cents, external_id=f"back-{amount_cents}-{MARK}")
    refund = await refund_usecases.start_refund(context, books.seller, request)
    await move_due(context, no_fence, range(256), now - timedelta(days=1), now, 256)
    if ending is not None:
        await end_orders(context, [(refund.return_id, ending)])


async def _trade(books: AllBooks) -> None:
    context, clock = books.live.context, books.live.clock
    settled, rejected = Settled(settled_at=clock.now()), Rejected(code="AC07", reason="closed")
    names = [await receive(books, amount_cents=cents) for cents in (10_000, 20_000, 30_000, 40_000)]
    await receive(books, BUYER, amount_cents=50_000)
    await _give_back(books, names[0], settled, 300)
    await _give_back(books, names[1], settled, 20_000)
    await _give_back(books, names[2], rejected, 700)
    await _give_back(books, names[3], None, 900)
    sent = await _send(books, settled, 1_100)
    await _send(books, rejected, 1_200)
    await _send(books, None, 1_300)
    await _send(books, GivenUp(), 1_400)
    returned = ReturnReport(
        report_id="d1",
        return_id=f"D{OUTSIDE_ISPB}202607011500{context.entropy.token(11)}",
        original_end_to_end_id=sent.end_to_end_id,
        amount_cents=200,
        reason="MD06",
        description=None,
        reported_at=clock.now(),
    )
    assert (await receive_return(context, returned)).refusal_code is None  # type: ignore[union-attr]
    request = KeyTransferRequest(amount_cents=2_000, key=marked_key(BUYER), key_type="EMAIL", external_id=f"book-{MARK}")
    by_book = (await transfer_usecases.start_transfer(context, books.seller, request)).transfer
    back = RefundRequest(end_to_end_id=by_book.end_to_end_id, amount_cents=500, external_id=f"book-back-{MARK}")
    await refund_usecases.start_refund(context, books.buyer, back)


async def _owe(books: AllBooks) -> None:
    fee = movement_report(books.live, f"M1-{MARK}")
    fee = structs.replace(fee, party=structs.replace(fee.party, account_number=DEBTOR, key=marked_key(DEBTOR)))
    await receive_movement(books.live.context, fee)
    await receive(books, DEBTOR, amount_cents=60)
    await receive(books, DEBTOR, amount_cents=540)
    await receive_movement(books.live.context, structs.replace(fee, item_id=f"M2-{MARK}", report_id="M2"))


async def _block(books: AllBooks) -> None:
    party = credit_report(books.live, account_number=BUYER).credit_party
    for cents in (300, 250):
        terms = (
            BlockTerms(reference=f"B1-{MARK}", kind="security", wanted_cents=400, held_cents=cents),
            BlockTerms(reference=f"B2-{MARK}", kind="judicial", wanted_cents=cents - 250, held_cents=cents - 250),
        )
        report = BlockReport(
            report_id=f"B{cents}", party=structs.replace(party, key=None), blocks=terms, reported_at=books.live.clock.now()
        )
        await receive_blocks(books.live.context, report)
        books.live.clock.advance(seconds=1)
    paid = await receive(books, BUYER, amount_cents=70)
    contested = infraction_report(books.live, paid, f"I1-{MARK}", amount_cents=70)
    contested = structs.replace(contested, party=structs.replace(party, key=None))
    for told in (contested, decided(books.live, contested, days=0)):
        await receive_infraction(books.live.context, told)
        books.live.clock.advance(seconds=1)
    for is_released in (True, False):
        suspect = credit_report(books.live, account_number=DEBTOR, amount_cents=80)
        suspect = structs.replace(suspect, credit_party=structs.replace(suspect.credit_party, key=marked_key(DEBTOR)))
        for told in (held(suspect), suspect)[: 2 if is_released else 1]:
            assert (await receive_credit(books.live.context, told)).refusal_code is None


async def _charge(books: AllBooks) -> None:
    context, clock = books.live.context, books.live.clock
    for order in ("paid", "held", "waiting"):
        request = ChargeRequest(amount_cents=1_000, key=marked_key(SELLER).upper(), external_id=f"{order}-{MARK}")
        charge = await charge_usecases.create_charge(context, books.seller, request)
        if order == "paid":
            await receive(books, txid=charge.txid)
        if order == "held":
            report = credit_report(books.live, account_number=SELLER, txid=charge.txid)
            report = structs.replace(report, credit_party=structs.replace(report.credit_party, key=marked_key(SELLER)))
            assert (await receive_credit(context, accepted(report))).refusal_code is None
    asked = ChargeContents(lifetime_s=3600, amount_cents=1_500, key=marked_key(SELLER))
    for number in (1, 2):
        txid = f"order00000000000000{number}{MARK}"
        await standard_usecases.put_charge(context, books.seller, txid, asked, None)
        await standard_usecases.patch_charge(context, books.seller, txid, ContentsChange(amount_cents=1_600))
    await receive(books, amount_cents=1_600, txid=f"order000000000000001{MARK}")
    terms = DueTerms(due_on=date(2026, 7, 1), rebate=Rebate(kind="sum", value=100))
    for number, days in ((1, 30), (2, 60)):
        due = structs.replace(asked, lifetime_s=0, due=structs.replace(terms, valid_days=days))
        await standard_usecases.put_charge(context, books.seller, f"boleto00000000000000{number}{MARK}", due, None)
    longer = ContentsChange(due=DueChange(valid_days=61))
    await standard_usecases.patch_charge(context, books.seller, f"boleto000000000000002{MARK}", longer, kind="cobv")
    await receive(books, amount_cents=1_400, txid=f"boleto000000000000001{MARK}")
    await _ask_for_lot(books, structs.replace(asked, lifetime_s=0, due=terms))
    clock.advance(hours=2)
    await charge_usecases.expire_charges(context, range(256), clock.now(), 10)


async def _ask_for_lot(books: AllBooks, contents: ChargeContents) -> None:
    """Charges by lot: one created, one refused, and one refused and requested again."""
    context = books.live.context
    not_ours = structs.replace(contents, key="nobody@test.example")
    items = [
        NewItem(txid=f"carne000000000000000{number}{MARK}", asked=WantedItem(contents=wanted), wanted="{}")
        for number, wanted in enumerate((contents, not_ours, not_ours))
    ]
    await lot_usecases.put_lot(context, books.seller, 7, "Carnê", items)
    await do_due_items(context, range(256), 10)
    found, _ = await lot_usecases.find_lot(context, books.seller, 7)
    assert await lot_usecases.patch_lot(context, books.seller, found, None, items[2:])


async def _at_account(books: AllBooks) -> None:
    """An account at an institution: a paid charge, returns by us and by the institution, lines, a closed day."""
    shop, clock = books.shop, books.live.clock
    await shop.allow()
    paid = await shop.charge(f"there-{MARK}")
    pix = shop.pay(1000, txid=paid.txid)
    other = shop.pay(5000)
    for cents in (701, 702):
        shop.pay(cents)
    await shop.read()
    for name in ("waiting", "code"):
        await shop.charge(f"there-{name}-{MARK}")
    clock.advance(minutes=1)
    for name, cents in (("back", 300), ("gone", 20), ("named", 30)):
        await shop.give_back(pix, cents, external_id=f"there-{name}-{MARK}")
    await shop.move_orders()
    shop.there.refund_status = "under_way"
    await shop.give_back(pix, 100, external_id=f"there-open-{MARK}")
    await shop.move_orders()
    token = shop.context.entropy.token(11)
    at = clock.real_now()
    made_there = ListedRefund(
        id=f"r{token}",
        return_id=f"D{OUTSIDE_ISPB}202607011500{token}",
        amount_cents=400,
        status="returned",
        asked_at=at,
        settled_at=at,
    )
    index = next(i for i, one in enumerate(shop.there.received) if one.end_to_end_id == other.end_to_end_id)
    shop.there.received[index] = structs.replace(other, refunds=[made_there])
    await shop.read()
    day = to_day(at)
    fee = InstitutionItem(item_id=f"L1-{MARK}", day=day, settled_at=at, direction="OUT", amount_cents=250, kind="fee")
    named = InstitutionItem(
        item_id=f"L2-{MARK}", day=day, settled_at=at, direction="IN", amount_cents=5000, kind="pix",
        end_to_end_id=other.end_to_end_id,
    )  # fmt: skip
    # More than the holder has: the rest becomes a debt, which later payments repay.
    drawn = structs.replace(fee, item_id=f"L3-{MARK}", amount_cents=20_000, kind="other")
    await record_listed(shop.at, shop.account, [fee, named, drawn])
    await note_listed(shop.at, shop.account, (day, day))
    await settle_items(shop.at, shop.account)
    shop.pay(3000)
    await shop.read()
    await day_usecases.judge(shop.at, shop.account, day)


async def _act(books: AllBooks) -> None:
    live = books.live
    operator = as_operator(live.context)
    await console_session.add_operator(operator, "ana", "operator")
    await endpoint_usecases.allow_host(operator, "shared.example")
    stranger = credit_report(live, account_number="99")
    await receive_credit(live.context, structs.replace(stranger, credit_party=structs.replace(stranger.credit_party, key=None)))
    rejected = "select end_to_end_id from transfer where direction = 'OUT' and status = 'ERROR'"
    (row,) = await live.fetch(rejected)
    told = SettledReport(report_id="s1", id=row["end_to_end_id"], settled_at=live.clock.now())
    for report_id in ("s1", "s2"):
        told = structs.replace(told, report_id=report_id)
        await take_reports(live.context, [told])
    (kept,) = await live.fetch("select id from kept_report")
    # Another one, not examined by a person, for an order that does not exist.
    unknown = structs.replace(told, report_id="s3", id=f"E{OUTSIDE_ISPB}202607011500{MARK}none")
    await kept_usecases.keep(live.context.pool, unknown, Misfit(reason="unknown_order", explanation="there is none"))
    await kept_usecases.close_kept(operator, kept["id"], "looked at")
