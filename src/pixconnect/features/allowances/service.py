"""Allowances: one operator lowers them at once, two raise them with an hour between; and the rule that enforces them."""

from collections.abc import Sequence
from typing import Final

from msgspec import structs

from pixconnect.features.allowances import tables as allowance_store
from pixconnect.features.allowances.rules import (
    RAISED_AFTER,
    TransferAllowance,
    WantedAllowance,
    check_refund_day,
    check_transfer_allowance,
    cut,
    want,
)
from pixconnect.features.institutions.service.account import found, name_account
from pixconnect.features.institutions.service.proposals import confirming, record_confirmed
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.audit import make_proposal, propose
from pixconnect.kernel.flows.before_order import NewOrder, OrderRule
from pixconnect.kernel.flows.context import Operator, Writer, write_alone
from pixconnect.kernel.rules.order import WaitingOrder
from pixconnect.kernel.rules.proposal import Proposal
from pixconnect.kernel.rules.refund import NewRefund, Refund
from pixconnect.kernel.rules.transfer import NewTransfer
from pixconnect.kernel.tables import proposal as proposal_store
from pixconnect.kernel.tables.clock import service_now_to_write
from pixconnect.kernel.writing.unit_of_work import UnitOfWork
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import to_day
from pixconnect.platform.pool import Connection, Pool


async def allow(context: Operator, name: str, wanted: WantedAllowance) -> Proposal | None:
    """Set an account's allowance; an earlier proposal is discarded. A reduction acts at once.

    Returns:
        The proposal of a higher allowance, which another operator must confirm; ``None`` if all of it acts already: it is a
        reduction, or the account is a counterpart's, where nothing can be lost.

    Raises:
        NotFound: The account does not exist.
        BadRequest: Nothing is given, or an impossible sum.
        ServiceUnavailable: It is higher, and this machine's clock is wrong; nothing was done.
    """
    async with write_alone(context.pool) as connection:
        account = found(await account_store.lock_named(connection, name), name)
        before = await allowance_store.lock(connection, account.id)
        asked = structs.replace(want(before, wanted), allowed_by=context.operator)
        now_allowed = asked if account.environment == "counterpart" else cut(before, asked)
        await proposal_store.forget(connection, "allow", institution_id=account.id)
        proposal = None
        if now_allowed != asked:
            # Its hour would begin before it is visible. A reduction never waits for a clock.
            await service_now_to_write(context.clock, connection)
            contents = {member: getattr(asked, member) for member in WantedAllowance.__struct_fields__}
            proposal = make_proposal(context, "allow", contents, institution_id=account.id, rest=RAISED_AFTER)
            await propose(context, connection, "institution allow", name_account(name), proposal)
            if structs.replace(now_allowed, allowed_by=before.allowed_by) == before:
                return proposal
        await allowance_store.write(connection, now_allowed)
        await audit.record(context, connection, "institution allow", name_account(name), before=before, after=now_allowed)
    return proposal


async def allow_more(context: Operator, writes: Writer, proposal: Proposal) -> None:
    """Apply a raise that another operator proposed at least an hour ago; only on a machine whose clock is right.

    Raises:
        NotFound: It was withdrawn, replaced or confirmed meanwhile.
    """
    async with confirming(context, proposal) as (connection, account):
        await service_now_to_write(context.clock, connection)
        before = await allowance_store.lock(connection, account.id)
        after = structs.replace(before, **proposal.contents, allowed_by=context.operator)
        await allowance_store.write(connection, after)
        await record_confirmed(context, connection, account, before, after)


# The rule on how much may leave today over accounts at institutions, and to which payees.


class Allowances(OrderRule):
    """The days of the accounts stay locked until the batch's transaction ends."""

    rank = 10

    def __init__(self, work: UnitOfWork) -> None:
        super().__init__(work)
        self._left: dict[int, TransferAllowance] = {}
        self._refunds_left_cents: dict[int, int] = {}
        self._known_ids: set[int] = set()  # transfers of the batch whose payees were paid over their account before

    @staticmethod
    def concerns(work: UnitOfWork, batch: Sequence[NewOrder]) -> bool:
        del work
        return {new.account_id for new in batch} != {None}

    async def begin(self, batch: Sequence[NewOrder]) -> None:
        over = [(new, new.account_id) for new in batch if new.account_id is not None]
        connection, day = self.work.connection, to_day(self.work.now)
        transfers = [(new, account_id) for new, account_id in over if isinstance(new, NewTransfer)]
        # In the order of accounts, in which every batch locks them.
        if transfers:
            account_ids = sorted({account_id for _, account_id in transfers})
            self._left = await allowance_store.hold_transfer_days(connection, account_ids, day)
        if refunded := sorted({account_id for new, account_id in over if isinstance(new, NewRefund)}):
            self._refunds_left_cents = await allowance_store.hold_refund_days(connection, refunded, day)
        for new, account_id in transfers:
            payee = allowance_store.name_payee(new.request.initiation_type, new.payee.party)
            if self._left[account_id].payees == "known" and await allowance_store.is_known_payee(connection, account_id, payee):
                self._known_ids.add(new.transfer_id)

    def check(self, new: NewOrder) -> None:
        if new.account_id is None:
            return
        if isinstance(new, NewRefund):
            check_refund_day(new.request.amount_cents, self._refunds_left_cents[new.account_id])
            return
        is_known = new.transfer_id in self._known_ids
        left, request = self._left[new.account_id], new.request
        check_transfer_allowance(request.amount_cents, request.initiation_type, new.payee.party, left, is_known=is_known)

    def count(self, new: NewOrder) -> None:
        if new.account_id is None:
            return
        amount_cents = new.request.amount_cents
        if isinstance(new, NewRefund):
            self._refunds_left_cents[new.account_id] -= amount_cents
        else:
            left = self._left[new.account_id]
            self._left[new.account_id] = structs.replace(left, left_cents=left.left_cents - amount_cents)

    @staticmethod
    async def find_holds(connection: Connection | Pool, waiting: Sequence[WaitingOrder]) -> dict[str, str]:
        ordered = {each.name: each.ordered for each in waiting if each.balance.institution_id is not None}
        holds: dict[str, str] = {}
        if not ordered:
            return holds
        for name, (refunds_left_cents, left, is_known) in (await allowance_store.find_left(connection, ordered)).items():
            one = ordered[name]
            try:
                if isinstance(one, Refund):
                    check_refund_day(one.amount_cents, refunds_left_cents)
                else:
                    check_transfer_allowance(one.amount_cents, one.initiation_type, one.counterparty, left, is_known=is_known)
            except errors.LimitExceeded as exceeded:
                holds[name] = str(exceeded)
        return holds


ORDER_RULES: Final = (Allowances,)
