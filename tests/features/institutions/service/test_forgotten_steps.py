"""What a restored database has lost of a refund's calls is never a reason for a second refund."""

from itertools import product
from typing import Literal

import pytest

from pixconnect.features.institutions.rules.institution import InstitutionTraits, UnknownOutcome
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows.server_watch import ServerWatch
from pixconnect.kernel.rules.rail import NeverTaken, NotTaken, RefundOrder, Rejected
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.tables import database_loss as loss_store
from pixconnect.kernel.tables import installation as installation_store
from support.account_shop import Shop
from support.books import check_books
from support.fake_institution import LOST_AFTER, LOST_BEFORE

Remembered = Literal["nothing", "minted", "calling", "asked"]
REMEMBERED: tuple[Remembered, ...] = ("nothing", "minted", "calling", "asked")
_CALLING = "update rail_step set state = 'calling', called_at = now()"
_WAYS = dict[str, tuple[str, ...]](
    minted=(), calling=(_CALLING,), asked=(_CALLING, "update rail_step set state = 'asked', may_be_done = true")
)


async def begin(shop: Shop) -> Refund:
    await shop.allow()
    pix = await shop.receive(1000)
    return await shop.give_back(pix)


async def set_back(shop: Shop, refund: Refund, to: Remembered) -> None:
    """Let the database remember of the refund's calls what it did at an earlier moment."""
    await shop.live.execute_as_owner(f"delete from rail_step where order_name = '{refund.return_id}'")
    if to == "nothing":
        return
    await shop.memory.open([refund.return_id])
    for statement in _WAYS[to]:
        await shop.live.execute_as_owner(f"{statement} where order_name = '{refund.return_id}'")


async def lose(shop: Shop) -> None:
    """A loss is detected, as when a process begins at an unknown server; the operator lets things go on."""
    async with shop.context.pool.acquire() as connection, connection.transaction():
        found = await installation_store.read_server(connection)
        count = await loss_store.count_orders_as_handed(connection, has_rail=False)
        await loss_store.insert_loss(connection, "another server", found, None, count)
    await shop.live.execute_as_owner("update institution_account set state = 'active', paused_because = null, lost_at = null")


async def read_steps(shop: Shop) -> list[tuple[str, bool]]:
    return [tuple(row) for row in await shop.live.fetch("select state, only_asked from rail_step order by created_at")]


async def test_after_a_loss_that_is_seen_a_refund_is_asked_about_and_never_called(shop: Shop) -> None:
    refunds: dict[tuple[Remembered, bool], Refund] = {}
    for remembered, was_done in product(REMEMBERED, (True, False)):
        refund = refunds[remembered, was_done] = await begin(shop)
        await set_back(shop, refund, "minted")
        step = (await shop.memory.open([refund.return_id]))[refund.return_id]
        if was_done:
            await shop.there.refund(step.original_end_to_end_id or "", step.name_there or "", step.amount_cents)
        await set_back(shop, refund, remembered)
    await lose(shop)
    shop.there.calls.clear()
    for repeats in (True, False):
        shop.there.traits = InstitutionTraits(repeats_refunds=repeats)
        for _ in range(3):
            shop.live.clock.advance(hours=5)
            await shop.move_orders()
    assert shop.there.calls == []
    for (_, was_done), refund in refunds.items():
        read = await refund_usecases.read_refund_by_id(shop.context, shop.house, refund.id)
        assert read.status == ("RETURNED" if was_done else "PROCESSING")
    assert set(await read_steps(shop)) == {("asked", True), ("closed", True)}
    # Later requests cannot have been lost.
    later = await begin(shop)
    await shop.move_orders()
    assert (await refund_usecases.read_refund_by_id(shop.context, shop.house, later.id)).status == "RETURNED"
    assert (await read_steps(shop))[-1] == ("closed", False)
    await check_books(shop.live)


async def test_the_schema_lets_nobody_call_what_is_only_asked_about(shop: Shop) -> None:
    refund = await begin(shop)
    await shop.memory.open([refund.return_id])
    await lose(shop)
    assert await read_steps(shop) == [("calling", True)]
    for change in ("state = 'minted', called_at = null", "only_asked = false", "state = 'closed', outcome = 'never'"):
        with pytest.raises(Exception, match="cannot go from calling"):
            await shop.live.execute_as_owner(f"update rail_step set {change}")
    await shop.live.execute_as_owner("update rail_step set state = 'asked', may_be_done = true")
    with pytest.raises(Exception, match="cannot go from asked"):
        await shop.live.execute_as_owner("update rail_step set state = 'calling'")


async def restart(shop: Shop) -> None:
    """PostgreSQL is restarted, and this process meets it when everything that was open is too late."""
    async with shop.context.pool.acquire() as connection:
        await ServerWatch(has_rail=False).begin(connection)
        await shop.live.execute_as_owner("update installation set started_at = started_at - interval '1 hour'")
        shop.live.clock.advance(seconds=61)
        await shop.context.server.begin(connection)


async def test_over_a_restart_only_what_was_called_and_can_do_no_harm_is_called_again(shop: Shop) -> None:
    """For 12 h from the first call; an order that was never called is asked about, like any that outlived a restart."""
    shop.there.refund_answers = [LOST_BEFORE]
    lost = await begin(shop)
    await shop.move_orders()
    cut_off, named = await begin(shop), await begin(shop)
    await set_back(shop, cut_off, "calling")
    await set_back(shop, named, "minted")
    handed = "update open_order set handed_at = ordered_at where institution_id is not null"
    await shop.live.execute_as_owner(handed)
    await restart(shop)
    (called,) = shop.there.calls
    shop.there.traits = InstitutionTraits(repeats_refunds=False)
    await shop.move_orders()
    assert shop.there.calls == [called], "no source says that it is harmless"
    shop.there.traits = InstitutionTraits(repeats_refunds=True)
    shop.live.clock.advance(minutes=6)
    # It stays harmless and is made again however often it is lost: first both are, then each is returned once.
    shop.there.refund_answers = [LOST_BEFORE, LOST_AFTER]
    for _ in range(3):
        await shop.move_orders()
        shop.live.clock.advance(minutes=6)
    statuses = [
        (await refund_usecases.read_refund_by_id(shop.context, shop.house, refund.id)).status
        for refund in (lost, cut_off, named)
    ]
    assert statuses == ["RETURNED", "RETURNED", "PROCESSING"]
    assert shop.there.given_back_cents == 2000
    assert len(set(shop.there.calls)) == 2, "each under the name that it had"
    shop.live.clock.advance(hours=13)
    await shop.move_orders()
    ended = await refund_usecases.read_refund_by_id(shop.context, shop.house, named.id)
    assert (ended.status, shop.there.given_back_cents) == ("ERROR", 2000)
    await check_books(shop.live)


@pytest.mark.parametrize("how", ["its time is over", "the database had lost something"])
async def test_over_a_restart_nothing_is_called_again_after_its_time_or_a_loss(shop: Shop, how: str) -> None:
    shop.there.traits = InstitutionTraits(repeats_refunds=True)
    shop.there.refund_answers = [LOST_BEFORE]
    refund = await begin(shop)
    await shop.move_orders()
    await restart(shop)
    if how == "its time is over":
        shop.live.clock.advance(hours=12)
    else:
        await lose(shop)
    for _ in range(3):
        await shop.move_orders()
        shop.live.clock.advance(minutes=6)
    assert len(shop.there.calls) == 1
    assert (await refund_usecases.read_refund_by_id(shop.context, shop.house, refund.id)).status == "PROCESSING"


@pytest.mark.long
@pytest.mark.parametrize("repeats", [True, False])
async def test_a_memory_that_is_put_back_between_two_calls_returns_nothing_twice(shop: Shop, *, repeats: bool) -> None:
    """The loss is not detected; the adapter's memory is reset in every state, before a submission or a question."""
    shop.there.traits = InstitutionTraits(repeats_refunds=repeats)
    rail = shop.at.rail
    answers: tuple[UnknownOutcome | None, ...] = (None, LOST_BEFORE, LOST_AFTER)
    for answer, remembered, next_one in product(answers, REMEMBERED, ("sending", "question")):
        refund = await begin(shop)
        order = RefundOrder(
            return_id=refund.return_id, original_end_to_end_id=refund.original_end_to_end_id,
            amount_cents=refund.amount_cents, reason=refund.reason, description=None, ordered_at=refund.created_at,
        )  # fmt: skip
        shop.there.refund_answers = [] if answer is None else [answer]
        before_cents = shop.there.given_back_cents
        told = await rail.submit_refunds([order])
        await set_back(shop, refund, remembered)
        if next_one == "question":
            told += await rail.query([order.return_id])
        told += await rail.submit_refunds([order])
        told += await rail.query([order.return_id])
        given_back_cents = shop.there.given_back_cents - before_cents
        assert given_back_cents <= refund.amount_cents, (answer, remembered, next_one)
        assert not any(isinstance(each, Rejected | NeverTaken | NotTaken) for each in told)
