"""The rule that delays some of a holder's transfers until an operator approves them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pixconnect.features.approvals import tables as approval_store
from pixconnect.features.approvals.tables import PENDING_APPROVALS, PendingApproval
from pixconnect.kernel.flows.before_order import NewOrder, OrderRule, payers_of
from pixconnect.kernel.rules.limit import ApprovalReason, find_approval_reason
from pixconnect.kernel.rules.order import OpenOrder, OrderWait, await_approval
from pixconnect.kernel.rules.transfer import NewTransfer, Transfer, announce_update
from pixconnect.kernel.writing.unit_of_work import UnitOfWork
from pixconnect.platform.pool import Pool


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
                not rule.new_payees
                or await approval_store.count_paid(self.work.connection, new.holder_id, by, payee, 1) > 0
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
        self.work.announce(announce_update, transfer, self.work.now)
        return await_approval(order, new.handover_timeout)

    @staticmethod
    async def find_wait(pool: Pool, order_name: str) -> OrderWait | None:
        pending = await approval_store.find_awaited(pool, order_name)
        return None if pending is None else OrderWait(waits_for="operator", since=pending.since)


ORDER_RULES: Final = (Approvals,)
