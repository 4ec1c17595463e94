"""The network's names of our orders, if it does not use our ids.

A rail may report a name with its answer, with the outcome, or later still. It is recorded once, in any state of the order, and
without an event. Orders end by our own id, so an implausible name blocks no end: it is kept for an operator, and the order
keeps its present name.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules import kept_report
from pixconnect.kernel.rules.kept_report import Misfit
from pixconnect.kernel.rules.order import name_of
from pixconnect.kernel.rules.rail import Report
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import order as order_store
from pixconnect.kernel.tables import refund as refund_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.writing.batch import Batch, WriteOperation
from pixconnect.kernel.writing.unit_of_work import begin_money_work
from pixconnect.platform.base import errors


class NamedOrder(Struct, frozen=True, kw_only=True):
    ordered: Transfer | Refund
    network_id: str

    @property
    def holder_id(self) -> int:
        return self.ordered.holder_id


async def name_orders(context: Context, named: Sequence[NamedOrder]) -> list[Misfit | errors.PixConnectError | None]:
    """Record the rail's names of our orders; for each, in order, the reason if that was not recorded."""
    outcomes: list[Misfit | errors.PixConnectError | None] = [_find_misfit(context, each) for each in named]
    new = [
        index
        for index, each in enumerate(named)
        if outcomes[index] is None and each.network_id not in (name_of(each.ordered), each.ordered.network_id)
    ]
    written = await context.writes.submit_all(NAME_ORDERS, [named[index] for index in new]) if new else []
    for index, outcome in zip(new, written, strict=True):
        outcomes[index] = outcome
    return outcomes


def _find_misfit(context: Context, named: NamedOrder) -> Misfit | None:
    name = name_of(named.ordered)
    if named.network_id == name:
        return None
    if context.policy.abilities.keeps_our_id:
        return _misfit(named, "the network uses our ids")
    # An adapter for a network without such ids generates some, since callers are promised the form.
    if not kept_report.is_name(named.network_id) or named.network_id[0] != name[0]:
        return _misfit(named, f"that is no id of {kept_report.NAME_LENGTH} characters that begins with {name[0]}")
    return None


def _misfit(named: NamedOrder, reason: str) -> Misfit:
    explanation = f"{name_of(named.ordered)} is called {named.network_id}, but {reason}"
    return Misfit(reason="contradiction", explanation=explanation)


async def _name_orders(batch: Batch[NamedOrder]) -> list[Misfit | None]:
    work = await begin_money_work(batch)
    connection = work.connection
    # In the order in which endings lock them too; ended transfers and refunds have no order any more.
    await order_store.lock(connection, [name_of(named.ordered) for named in batch])
    transfers = {(named.ordered.id, named.holder_id) for named in batch if isinstance(named.ordered, Transfer)}
    refunds = {(named.ordered.id, named.holder_id) for named in batch if isinstance(named.ordered, Refund)}
    now_named = {
        name_of(each): each.network_id
        for each in (
            *(await transfer_store.lock_by_id(connection, sorted(transfers)) if transfers else {}).values(),
            *(await refund_store.lock_by_id(connection, sorted(refunds)) if refunds else {}).values(),
        )
    }
    wanted = sorted({(named.network_id, named.ordered.amount_cents) for named in batch})
    taken = await order_store.find_taken_ids(connection, wanted)
    outcomes: list[Misfit | None] = []
    new: list[tuple[Transfer | Refund, str]] = []
    for named in batch:
        name, network_id = name_of(named.ordered), named.network_id
        misfit = None
        if name not in now_named:
            misfit = _misfit(named, "there is none of this id here")
        elif now_named[name] is not None and now_named[name] != network_id:
            misfit = _misfit(named, f"it was called {now_named[name]} before")
        elif now_named[name] is None and network_id in taken:
            misfit = _misfit(named, "that is the name of another")
        elif now_named[name] is None:
            now_named[name] = network_id
            # If two orders of one batch get one name, the first has it.
            taken.add(network_id)
            new.append((named.ordered, network_id))
        outcomes.append(misfit)
    if new:
        await order_store.name_all(connection, new, work.now)
    return outcomes


NAME_ORDERS: Final = WriteOperation("name_orders", _name_orders)


def may_be_named_later(context: Context, report: Report) -> bool:
    """Whether the rail must resend a report of an unknown order: a report recorded meanwhile may contain its name."""
    if context.policy.abilities.keeps_our_id:
        return False
    name = f"{kept_report.kind_of(report)} {report.report_id}"
    return not context.failed_reports.is_enough(name, context.clock.monotonic_s())
