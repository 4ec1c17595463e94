"""The rule about how much may leave today over accounts at institutions, and to which payees."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from pixconnect.features.allowances import tables as allowance_store
from pixconnect.features.allowances.rules import TransferAllowance, check_refund_day, check_transfer_allowance
from pixconnect.kernel.flows.order_rule import NewOrder, OrderRule
from pixconnect.kernel.rules.refund import NewRefund
from pixconnect.kernel.rules.transfer import NewTransfer
from pixconnect.kernel.writing.unit_of_work import UnitOfWork
from pixconnect.platform.base.civil_time import to_day


class Allowances(OrderRule):
    """The days of the accounts stay locked until the batch's transaction ends."""

    def __init__(self, work: UnitOfWork) -> None:
        super().__init__(work)
        self._left: dict[int, TransferAllowance] = {}
        self._refunds_left_cents: dict[int, int] = {}
        self._known_ids: set[int] = set()
        """Transfers of the batch whose payees were paid over their account before."""

    async def begin(self, batch: Sequence[NewOrder]) -> bool:
        over = [(new, new.account_id) for new in batch if new.account_id is not None]
        if not over:
            return False
        connection, day = self.work.connection, to_day(self.work.now)
        transfers = [(new, account_id) for new, account_id in over if isinstance(new, NewTransfer)]
        # In the order of accounts, as every batch takes them.
        if transfers:
            account_ids = sorted({account_id for _, account_id in transfers})
            self._left = await allowance_store.hold_transfer_days(connection, account_ids, day)
        if refunded := sorted({account_id for new, account_id in over if isinstance(new, NewRefund)}):
            self._refunds_left_cents = await allowance_store.hold_refund_days(connection, refunded, day)
        for new, account_id in transfers:
            by, payee = new.request.initiation_type, new.payee.party
            if self._left[account_id].payees == "known" and await allowance_store.is_known_payee(
                connection, account_id, by, payee
            ):
                self._known_ids.add(new.transfer_id)
        return True

    def check(self, new: NewOrder) -> None:
        if new.account_id is None:
            return
        if isinstance(new, NewRefund):
            check_refund_day(new.request.amount_cents, self._refunds_left_cents[new.account_id])
            return
        is_known = new.transfer_id in self._known_ids
        left, request = self._left[new.account_id], new.request
        check_transfer_allowance(
            request.amount_cents, request.initiation_type, new.payee.party, left, is_known=is_known
        )

    def count(self, new: NewOrder) -> None:
        if new.account_id is None:
            return
        amount_cents = new.request.amount_cents
        if isinstance(new, NewRefund):
            self._refunds_left_cents[new.account_id] -= amount_cents
        else:
            left = self._left[new.account_id]
            self._left[new.account_id] = structs.replace(left, left_cents=left.left_cents - amount_cents)
