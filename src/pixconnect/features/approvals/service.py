"""Operator approval of outgoing transfers.

A waiting transfer is an order that no worker processes before its deadline. The operator's decision moves that instant: a
worker then hands the order over as any other, or gives it up as any other, which releases its money exactly once.

An order rule delays those of a holder's transfers that need approval.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from pixconnect.doors.worker.parts import Gauge, Meter, age_s, counted
from pixconnect.features.approvals import tables as approval_store
from pixconnect.features.approvals.tables import PENDING_APPROVALS, ApprovalAnswer, PendingApproval
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.before_order import NewOrder, OrderRule, find_holds, payers_of
from pixconnect.kernel.flows.context import Core, Operator, read_ordered, write_alone
from pixconnect.kernel.rules.limit import ApprovalReason, find_approval_reason
from pixconnect.kernel.rules.order import OpenOrder, OrderWait, await_approval, decide_approval, is_too_late
from pixconnect.kernel.rules.transfer import NewTransfer, Transfer, announce_update
from pixconnect.kernel.tables import order as order_store
from pixconnect.kernel.tables.clock import service_now_to_write
from pixconnect.kernel.writing.unit_of_work import UnitOfWork
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection, Pool

LISTED_MAX: Final = 1000
COUNTED_MAX: Final = 100_000  # counting for metrics stops here: measuring a backlog must not be a load
WAITS_MAX: Final = timedelta(hours=1)  # a waiting transfer is given up some hours later: an operator should check it before
PAID_COUNTED_MAX: Final = 100


class WaitingTransfer(Struct, frozen=True, kw_only=True):
    """A transfer that waits for approval, as shown to operators."""

    transfer: Transfer
    order: OpenOrder  # its ``give_up_at`` is the deadline of the approval
    pending: PendingApproval
    paid_count: int  # how many of its holder's transfers have settled to its payee, up to a maximum
    hold: str | None  # why it could not leave now, so that an approval is refused


async def decide_transfer(context: Operator, transfer_id: int, *, is_approved: bool) -> ApprovalAnswer:
    """Approve a waiting transfer, or cancel it and release its money; repetitions change nothing.

    Raises:
        NotFound: No transfer with this id needed approval.
        BadRequest: Another operator decided the opposite, it is too late, nothing leaves its account now, or it may not leave
            any more.
        ServiceUnavailable: This machine's clock is wrong; nothing was done.
    """
    async with write_alone(context.pool) as connection:
        awaited = errors.found(
            await approval_store.find(connection, transfer_id),
            f"id: no transfer {transfer_id} had to be approved by an operator",
        )
        # Ending the order locks it too: one of the two is first, and the other sees it.
        order = (await order_store.lock(connection, [awaited.order_name])).get(awaited.order_name)
        # Before the order is checked: a repeated decision gets its answer though the order has ended since.
        if (earlier := await approval_store.find_decision(connection, awaited.order_name)) is not None:
            if earlier.is_approved != is_approved:
                word = "approved" if earlier.is_approved else "refused"
                raise errors.BadRequest(f"id: {earlier.decided_by} has {word} it already, and that is not undone")
            return earlier
        # Read under the lock: its deadline may have passed while we waited for that.
        now = await service_now_to_write(context.clock, connection)
        if order is None or order.approval != "awaited" or is_too_late(order, now):
            raise errors.BadRequest("id: it no longer waits: the time for approval is over, or the database was restored")
        # A refusal is accepted in any state of the account: it only releases money.
        if is_approved:
            await _check_account(connection, order)
            # Its holder may no longer be permitted to send it.
            ordered = await read_ordered(connection, [order.name])
            if (hold := (await find_holds(connection, ordered.values())).get(order.name)) is not None:
                raise errors.BadRequest(f"id: may not leave now: {hold}; change that, or refuse the transfer")
        decision = ApprovalAnswer(order_name=order.name, is_approved=is_approved, decided_by=context.operator, decided_at=now)
        handover_timeout = timedelta(seconds=context.policy.handover_timeout_s)
        # Decision, order and audit are one transaction: if the process dies here, nothing was decided.
        await approval_store.decide(
            connection, decision, decide_approval(order, now, handover_timeout, is_approved=is_approved)
        )
        verb = f"operator transfer {'approve' if is_approved else 'refuse'}"
        await audit.record(context, connection, verb, f"transfer {transfer_id}", before=awaited, after=decision)
    return decision


async def _check_account(connection: Connection, order: OpenOrder) -> None:
    """Refuse an approval that would only end the transfer, because it cannot leave in time."""
    if order.institution_id is None:
        return
    account = await account_store.find(connection, order.institution_id)
    if account is None or account.state != "active":
        raise errors.BadRequest("id: nothing leaves its account now: resume the account first, or refuse the transfer")


async def list_waiting_transfers(
    context: Core, holder_id: int | None = None, count_max: int = LISTED_MAX
) -> list[WaitingTransfer]:
    """List transfers that wait for approval, soonest deadline first."""
    orders = await approval_store.list_awaited(context.pool, holder_id, count_max)
    names = [order.name for order in orders]
    ordered = await read_ordered(context.pool, names)
    holds = await find_holds(context.pool, ordered.values())
    awaited = await approval_store.find_all(context.pool, names)
    return [
        WaitingTransfer(
            transfer=transfer,
            order=order,
            pending=awaited[order.name],
            paid_count=await approval_store.count_paid(
                context.pool, transfer.holder_id, transfer.initiation_type, transfer.counterparty, PAID_COUNTED_MAX
            ),
            hold=holds.get(order.name),
        )
        for order in orders
        if isinstance(transfer := ordered.get(order.name), Transfer) and order.name in awaited
    ]


async def count_waiting(context: Core) -> int:
    return (await approval_store.measure_awaited(context.pool, LISTED_MAX))[0]


async def _look_at_awaited(context: Core, now: datetime) -> tuple[int, float]:
    count, oldest_at = await approval_store.measure_awaited(context.pool, COUNTED_MAX)
    return count, age_s(oldest_at, now)


# fmt: off
METERS: Final = (
    Meter[tuple[int, float]](look=_look_at_awaited, gauges=(
        Gauge("pixconnect_transfers_to_approve", (),
            f"Transfers that wait for approval, counted up to {COUNTED_MAX}; see `pixconnect operator transfer list`.",
            lambda awaited: awaited[0]),
        Gauge("pixconnect_transfer_to_approve_oldest_age_seconds", (),
            "How long ago the oldest of these was accepted; 0 if there is none.",
            lambda awaited: awaited[1]),
    )),
)
# fmt: on


async def _count_late(context: Core) -> int:
    return await approval_store.count_awaited_since(context.pool, context.clock.now() - WAITS_MAX, LISTED_MAX)


PROBLEMS: Final = (
    counted(
        "rail",
        _count_late,
        "transfer has",
        "transfers have",
        f"waited for an operator's approval for over {WAITS_MAX // timedelta(hours=1)} h",
    ),
)


class Approvals(OrderRule):
    rank = 70

    def __init__(self, work: UnitOfWork) -> None:
        super().__init__(work)
        self._reasons: dict[int, ApprovalReason] = {}

    @staticmethod
    def concerns(work: UnitOfWork, batch: Sequence[NewOrder]) -> bool:
        rules = [work.balances[each].approval for each in payers_of(batch)]
        return any(rule.above_cents is not None or rule.new_payees for rule in rules)

    async def begin(self, batch: Sequence[NewOrder]) -> None:
        for new in batch:
            if not isinstance(new, NewTransfer):
                continue
            rule = self.work.balances[new.holder_id].approval
            # A book transfer only moves money to another holder here, where it can be recovered.
            if new.payee.holder_id is not None or (rule.above_cents is None and not rule.new_payees):
                continue
            by, payee = new.request.initiation_type, new.payee.party
            is_known = (
                not rule.new_payees or await approval_store.count_paid(self.work.connection, new.holder_id, by, payee, 1) > 0
            )
            reason = find_approval_reason(rule, new.request.amount_cents, is_known_payee=is_known)
            if reason is not None:
                self._reasons[new.transfer_id] = reason

    def delay(self, new: NewOrder, transfer: Transfer, order: OpenOrder) -> OpenOrder:
        reason = self._reasons.get(transfer.id)
        if reason is None:
            return order
        pending = PendingApproval(
            order_name=order.name,
            transfer_id=transfer.id,
            holder_id=transfer.holder_id,
            is_above=reason.is_above,
            is_new_payee=reason.is_new_payee,
            since=self.work.now,
        )
        self.work.put(PENDING_APPROVALS, pending)
        self.work.announce(announce_update, transfer, "transfer.out.waiting", self.work.now)
        return await_approval(order, new.handover_timeout)

    @staticmethod
    async def find_wait(pool: Pool, order_name: str) -> OrderWait | None:
        pending = await approval_store.find_awaited(pool, order_name)
        return None if pending is None else OrderWait(waits_for="operator", since=pending.since)


ORDER_RULES: Final = (Approvals,)
