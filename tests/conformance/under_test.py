"""The interface of a rail under test, and helpers of the conformance suite."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Final, Literal, NoReturn, Protocol, TypeVar

import pytest
from msgspec import structs

from pixconnect.kernel.rules import rail as rails

Work = Literal["orders", "refunds", "refusals", "repeats", "reports", "statement", "lists", "memory"]
"""Work that a rail can do:

- *orders* and *refunds*: it sends them and answers questions about them;
- *refusals*: it is certain that an impossible refund was refused;
- *repeats*: it can send a refund again whose outcome is unknown, because the institution makes it only once;
- *reports*: it delivers reports and takes acknowledgements; or *lists*: received payments are read from a list;
- *statement*: it has a statement and a position;
- *memory*: it remembers its calls, and that memory can be lost.
"""
WORK: Final = frozenset[Work](("orders", "refunds", "refusals", "repeats", "reports", "statement"))
"""The work of a rail for the whole network."""
Fate = Literal["settles", "rejected"]
Disturbance = Literal["lost", "late"]
FATES: Final[tuple[Fate, ...]] = ("settles", "rejected")
Remembered = Literal["minted", "calling", "asked"]
"""The remembered calls of an order: none, one that was interrupted, or one that may have been made."""
REMEMBERED: Final[tuple[Remembered, ...]] = ("minted", "calling", "asked")
Outcome = rails.SettledReport | rails.RejectedReport
OUTCOME: Final = (rails.SettledReport, rails.RejectedReport)
OneReport = TypeVar("OneReport", bound=rails.Report)
Told = TypeVar("Told")


class RailUnderTest(Protocol):
    """An adapter, with hooks into the network behind it.

    Hooks that a test environment cannot offer are inherited from ``UnofferedHooks``. Their tests then show as skipped,
    so the risk is visible.
    """

    @property
    def does(self) -> frozenset[Work]:
        """The work of the rail. The class of its tests repeats it."""
        ...

    @property
    def rail(self) -> rails.Rail: ...

    @property
    def timeout_s(self) -> float:
        """The longest time until an outcome or a report."""
        ...

    @property
    def known_key(self) -> str:
        """A normalised key that the directory has."""
        ...

    @property
    def unknown_key(self) -> str:
        """A valid key that the directory does not have."""
        ...

    @property
    def names(self) -> dict[str, str]:
        """Initially empty. The suite adds the network's id of each of our orders, on a network that does not use our ids."""
        ...

    def make_order(self, fate: Fate = "settles", amount_cents: int = 100) -> rails.Order:
        """Make an order with a new id, dated now by the network's clock, to a payee whose orders end as ``fate``."""
        ...

    def make_refund_order(self, original_end_to_end_id: str, amount_cents: int) -> rails.RefundOrder:
        """Make a refund order with a new id, for a received payment."""
        ...

    def pay_in(self, amount_cents: int, txid: str, payer_name: str = "Joana") -> Awaitable[str | None]:
        """Start a payment from outside to one of our holders. Networks without payer names may ignore ``payer_name``.

        Returns:
            The result for the payer: ``None`` if it settled, otherwise the code of the reason.
        """
        ...

    def pay_in_two_steps(self, amount_cents: int, txid: str, fate: Fate) -> Awaitable[str | None]:
        """As ``pay_in``, on a rail that accepts a payment before it settles or cancels it."""
        ...

    def give_back(self, end_to_end_id: str, amount_cents: int) -> Awaitable[str | None]:
        """Start a return by the receiver of a settled order; otherwise as ``pay_in``."""
        ...

    async def list_received(self) -> Sequence[rails.CreditReport]:
        """Return all received payments as the service reads them; for rails with *lists*.

        Raises:
            RailUnavailable: The list could not be read to its end.
        """
        ...

    async def read_funds(self) -> int:
        """Our funds in cents in the institution's own books; for rails without *statement*."""
        ...

    async def disturb_next_list(self, how: Disturbance) -> None:
        """Lose the answer to the next reading of the list, or leave new payments out of it."""
        ...

    async def forget(self, remembered: Remembered = "minted") -> None:
        """Reset the rail's memory of its calls, by default to before the first; for rails with *memory*."""
        ...

    async def lose_next_message(self) -> None:
        """Lose the next message before it arrives."""
        ...

    async def lose_next_answer(self) -> None:
        """Let the next message take effect, and lose its answer."""
        ...

    async def repeat_next_report(self) -> None:
        """Deliver the next report again although it was acknowledged."""
        ...

    def unavailable(self) -> AbstractAsyncContextManager[None]:
        """Make the network unreachable inside the block."""
        ...

    async def pass_time(self, span: timedelta) -> None:
        """Advance the network's clock."""
        ...


class UnofferedHooks:
    """Hooks that skip their test. An environment overrides those that it can offer."""

    def make_order(self, fate: Fate = "settles", amount_cents: int = 100) -> rails.Order:
        _skip("make_order")

    def make_refund_order(self, original_end_to_end_id: str, amount_cents: int) -> rails.RefundOrder:
        _skip("make_refund_order")

    async def pay_in(self, amount_cents: int, txid: str, payer_name: str = "Joana") -> str | None:
        _skip("pay_in")

    async def pay_in_two_steps(self, amount_cents: int, txid: str, fate: Fate) -> str | None:
        _skip("pay_in_two_steps")

    async def give_back(self, end_to_end_id: str, amount_cents: int) -> str | None:
        _skip("give_back")

    async def list_received(self) -> Sequence[rails.CreditReport]:
        _skip("list_received")

    async def read_funds(self) -> int:
        _skip("read_funds")

    async def disturb_next_list(self, how: Disturbance) -> None:
        _skip("disturb_next_list")

    async def forget(self, remembered: Remembered = "minted") -> None:
        _skip("forget")

    async def lose_next_message(self) -> None:
        _skip("lose_next_message")

    async def lose_next_answer(self) -> None:
        _skip("lose_next_answer")

    async def repeat_next_report(self) -> None:
        _skip("repeat_next_report")

    def unavailable(self) -> AbstractAsyncContextManager[None]:
        _skip("unavailable")

    async def pass_time(self, span: timedelta) -> None:
        _skip("pass_time")


def _skip(hook: str) -> NoReturn:
    pytest.skip(f"the test environment does not offer this: {hook}")


def begin(doing: Awaitable[Told]) -> asyncio.Future[Told]:
    """Run it in the background. If the test fails before awaiting it, its exception is not reported as never retrieved."""
    begun = asyncio.ensure_future(doing)
    begun.add_done_callback(lambda done: None if done.cancelled() else done.exception())
    return begun


def asks(*work: Work) -> pytest.MarkDecorator:
    """Mark a test with the work that it needs. ``conftest.py`` skips it for other rails before any fixture is set up."""
    return pytest.mark.asks(*work)


def needs(under: RailUnderTest, ability: str) -> None:
    if not getattr(under.rail.abilities, ability):
        pytest.skip(f"the rail says that it cannot do this: {ability}")


async def submit(under: RailUnderTest, orders: Sequence[rails.Order]) -> list[rails.SubmitAnswer]:
    answers = await under.rail.submit(orders)
    return [note_name(under, order.end_to_end_id, one) for order, one in zip(orders, answers, strict=True)]


async def submit_until_taken(under: RailUnderTest, orders: Sequence[rails.Order]) -> list[rails.SubmitAnswer]:
    """Submit orders again that were certainly not taken: a rail may limit its rate, and answer only what it passes on."""
    answers = await submit(under, orders)
    deadline_s = time.monotonic() + under.timeout_s
    while rails.NotTaken() in answers and time.monotonic() < deadline_s:
        await asyncio.sleep(min(0.05, under.timeout_s / 20))
        left = iter(await submit(under, [order for order, one in zip(orders, answers, strict=True) if one == rails.NotTaken()]))
        answers = [next(left) if one == rails.NotTaken() else one for one in answers]
    return answers


async def submit_refunds(under: RailUnderTest, orders: Sequence[rails.RefundOrder]) -> list[rails.SubmitAnswer]:
    answers = await under.rail.submit_refunds(orders)
    return [note_name(under, order.return_id, one) for order, one in zip(orders, answers, strict=True)]


async def ask(under: RailUnderTest, *order_ids: str) -> list[rails.QueryAnswer]:
    """Ask by the ids that the rail understands."""
    is_by_ours = under.rail.abilities.answers_by_our_id
    asked = [order_id if is_by_ours else under.names.get(order_id, order_id) for order_id in order_ids]
    answers = await under.rail.query(asked)
    return [note_name(under, order_id, one) for order_id, one in zip(order_ids, answers, strict=True)]


def note_name(under: RailUnderTest, order_id: str, told: Told) -> Told:
    """Note the network's id of an order, and return the answer without it, so that answers can be compared."""
    if isinstance(told, rails.Unknown):
        # For orders the institution may promise more than for refunds.
        is_refund = order_id.startswith("D")
        assert "repeats" in under.does or not (is_refund and told.is_repeatable), "it repeats nothing, and says that it may"
        return structs.replace(told, is_repeatable=False)
    if (
        not isinstance(told, rails.Taken | rails.Settled | rails.Rejected | rails.SettledReport | rails.RejectedReport)
        or told.network_id is None
    ):
        return told
    if told.network_id != order_id:
        assert not under.rail.abilities.keeps_our_id, "the rail says that it keeps our ids"
        assert len(told.network_id) == len(order_id)
        assert told.network_id[0] == order_id[0]
        assert under.names.setdefault(order_id, told.network_id) == told.network_id, "it was called otherwise before"
        assert list(under.names.values()).count(told.network_id) == 1, "another order is called so"
    return structs.replace(told, network_id=None)


async def final_answer(under: RailUnderTest, order_id: str, again: rails.Order | None = None) -> rails.Settled | rails.Rejected:
    """Ask until the answer is final. While it is unknown, submit ``again``: some rails cannot be asked before."""
    if not under.rail.abilities.answers_by_our_id and order_id not in under.names:
        # Its id comes with the report, which is delivered again later.
        await next_report(under, OUTCOME, lambda one: one.id == order_id)
    deadline_s = time.monotonic() + under.timeout_s
    answer: rails.QueryAnswer | None = None
    while time.monotonic() < deadline_s:
        [answer] = await ask(under, order_id)
        if isinstance(answer, rails.Settled | rails.Rejected):
            return answer
        assert not isinstance(answer, rails.NeverTaken), "it was taken"
        if isinstance(answer, rails.Unknown) and again is not None:
            await submit(under, [again])
        await asyncio.sleep(min(0.05, under.timeout_s / 20))
    raise AssertionError(f"no outcome of {order_id} within {under.timeout_s} s; the last answer was {answer}")


async def outcome(under: RailUnderTest, order_id: str) -> Outcome:
    """Wait for the report of an order's outcome, and acknowledge it."""
    async for report in incoming(under):
        if isinstance(report, rails.SettledReport | rails.RejectedReport) and report.id == order_id:
            await under.rail.acknowledge([rails.Acknowledgement(report_id=report.report_id)])
            return report
    raise AssertionError(f"no report of {order_id} within {under.timeout_s} s")


async def next_report(
    under: RailUnderTest, kind: type[OneReport] | tuple[type[OneReport], ...], is_wanted: Callable[[OneReport], bool]
) -> OneReport:
    """Wait for a report, without acknowledging it."""
    async for report in incoming(under):
        if isinstance(report, kind) and is_wanted(report):
            return report
    raise AssertionError(f"no such {kind} within {under.timeout_s} s")


async def incoming(under: RailUnderTest) -> AsyncIterator[rails.Report]:
    """Yield reports as they come, without acknowledging them, until the timeout."""
    deadline_s = time.monotonic() + under.timeout_s
    while (left_s := deadline_s - time.monotonic()) > 0:
        for report in await under.rail.reports(left_s):
            yield in_our_names(under, report)


def in_our_names(under: RailUnderTest, report: rails.Report) -> rails.Report:
    """Replace the network's ids in a report by ours."""
    ours = {name: order_id for order_id, name in under.names.items()}
    match report:
        case rails.SettledReport() | rails.RejectedReport():
            report = structs.replace(report, id=ours.get(report.id, report.id))
            return note_name(under, report.id, report)
        case rails.ReturnReport():
            original = report.original_end_to_end_id
            return structs.replace(report, original_end_to_end_id=ours.get(original, original))
        case _:
            return report


async def settles_once(under: RailUnderTest, order_id: str) -> None:
    """Check that an order has one outcome, however often it was sent: the same in answers and, with *reports*, in reports."""
    answer = await final_answer(under, order_id)
    assert isinstance(answer, rails.Settled)
    assert is_aware(answer.settled_at)
    assert await ask(under, order_id) == [answer]
    if "reports" not in under.does:
        return
    told = await outcome(under, order_id)
    assert isinstance(told, rails.SettledReport)
    assert told.settled_at == answer.settled_at


async def stays_never_taken(under: RailUnderTest, order: rails.Order) -> None:
    """Check that nothing settles under this id any more, even if the order is submitted again."""
    assert await ask(under, order.end_to_end_id) == [rails.NeverTaken()]
    [again] = await submit(under, [order])
    assert isinstance(again, rails.AlreadyKnown | rails.Unknown | rails.Rejected)
    await asyncio.sleep(min(0.3, under.timeout_s / 10))
    assert await ask(under, order.end_to_end_id) == [rails.NeverTaken()]


async def take_payment(under: RailUnderTest, txid: str) -> rails.CreditReport:
    """Acknowledge the reports of a payment until it has settled."""
    while True:
        report = await next_report(under, rails.CreditReport, lambda one: one.txid == txid)
        await under.rail.acknowledge([rails.Acknowledgement(report_id=report.report_id)])
        if type(report) is rails.CreditReport:
            return report


async def refuse_payment(under: RailUnderTest, txid: str, paying: asyncio.Future[str | None]) -> str | None:
    """Refuse each report of a payment until the payer has its result, and return the result."""
    while not paying.done():
        for report in await under.rail.reports(0.1):
            if isinstance(report, rails.CreditReport) and report.txid == txid:
                await under.rail.acknowledge([rails.Acknowledgement(report_id=report.report_id, refusal_code="BE17")])
        # The payer is answered over another connection.
        await asyncio.wait([paying], timeout=0.1)
    return paying.result()


def is_end(report: rails.CreditReport, txid: str) -> bool:
    return report.txid == txid and not isinstance(report, rails.CreditAccepted)


def is_same_payment(one: rails.CreditReport, other: rails.CreditReport) -> bool:
    """Whether two reports agree on a payment, apart from its state and time."""
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("end_to_end_id", "amount_cents", "debit_party", "credit_party", "txid", "initiation_type")
    )


async def receive(under: RailUnderTest, amount_cents: int) -> str:
    """Receive a settled payment, which can be refunded."""
    txid = make_txid()
    if "reports" in under.does:
        result, report = await asyncio.gather(under.pay_in(amount_cents, txid), take_payment(under, txid))
    else:
        result, report = await under.pay_in(amount_cents, txid), await find_listed(under, txid)
    assert result is None
    return report.end_to_end_id


async def find_listed(under: RailUnderTest, txid: str) -> rails.CreditReport:
    """Read the list until it has the payment."""
    deadline_s = time.monotonic() + under.timeout_s
    while time.monotonic() < deadline_s:
        found = [report for report in await under.list_received() if report.txid == txid]
        if found:
            assert all(report == found[0] for report in found), "one payment is listed as two"
            return found[0]
        await asyncio.sleep(min(0.05, under.timeout_s / 20))
    raise AssertionError(f"the payment is in no list within {under.timeout_s} s")


async def read_funds_there(under: RailUnderTest) -> int:
    return (await under.rail.position()).amount_cents if "statement" in under.does else await under.read_funds()


async def settle_an_order_and_a_refund(under: RailUnderTest) -> tuple[str, str, str]:
    """Settle an order of 500, and receive and refund a payment of 1000. Returns their three ids."""
    sent, received = under.make_order(amount_cents=500), await receive(under, 1000)
    refund = under.make_refund_order(received, 1000)
    await submit(under, [sent])
    await submit_refunds(under, [refund])
    for order_id in (sent.end_to_end_id, refund.return_id):
        assert isinstance(await final_answer(under, order_id), rails.Settled)
    return sent.end_to_end_id, received, refund.return_id


async def settle_one_of_each(under: RailUnderTest) -> tuple[str, str, str, str]:
    """As above, and a return of 200 of the order. Returns the four ids."""
    sent, received, refund = await settle_an_order_and_a_refund(under)
    returning = asyncio.ensure_future(under.give_back(sent, 200))
    report = await next_report(under, rails.ReturnReport, lambda one: one.original_end_to_end_id == sent)
    await under.rail.acknowledge([rails.Acknowledgement(report_id=report.report_id)])
    assert await returning is None
    return sent, received, refund, report.return_id


async def read_statement(under: RailUnderTest, since: datetime, until: datetime) -> list[rails.SettledItem]:
    """Read the whole statement, with our ids of orders on a network that uses others."""
    ours = {name: order_id for order_id, name in under.names.items()}
    return [
        structs.replace(item, id=ours.get(item.id, item.id))
        async for batch in under.rail.statement(since, until)
        for item in batch
    ]


def signed_cents(item: rails.SettledItem) -> int:
    return item.amount_cents if item.kind in {"credit", "return", "held"} else -item.amount_cents


def make_txid() -> str:
    """Make an id by which the suite recognises its own payments."""
    return secrets.token_hex(16)


def unknown_id(order: rails.Order) -> str:
    """Make a valid id that was never sent."""
    return f"{order.end_to_end_id[:-11]}{secrets.token_hex(6)[:11]}"


def is_aware(instant: datetime) -> bool:
    """Whether an instant has a time zone."""
    return instant.tzinfo is not None
