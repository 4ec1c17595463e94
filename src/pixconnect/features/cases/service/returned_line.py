"""Records a payee's return of a transfer that only a statement line shows: by two operators.

The institution lists no returns of sent Pix, so no reading records them. The return is recorded as a fact (a refund IN of the
transfer), not as an adjustment: its line is joined to it, and the case ends by itself. The return has the network's name, or
one derived from the line: the same each time, so that it is recorded once.
"""

from __future__ import annotations

import hashlib
from datetime import date
from typing import Final

from pixconnect.features.cases.rules.case import Case
from pixconnect.features.institutions.rules.account import UNNAMED_ISPB, InstitutionAccount
from pixconnect.features.institutions.rules.joining import ItemJoin, RecordedItem
from pixconnect.features.institutions.service.day import list_waiting
from pixconnect.features.institutions.service.proposing import confirming, lock_case, record_confirmed
from pixconnect.features.institutions.service.statement import settle_items
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.kernel.flows.context import Operator, Writer
from pixconnect.kernel.flows.incoming import RECEIVE_RETURNS, GivenBack
from pixconnect.kernel.rules.identifiers import is_return_id
from pixconnect.kernel.rules.proposal import Proposal
from pixconnect.kernel.rules.rail import ReturnReport
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import refund as refund_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.tables.identifiers import IdBlocks
from pixconnect.kernel.writing.batch import Batch
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection

RETURNS: Final = "returns"
"""The member of a proposal that names the transfer."""
_DIGEST_LENGTH: Final = 11


async def plan_return(
    connection: Connection, account: InstitutionAccount, case: Case, returns: str | None, line: str | None
) -> dict[str, str | int]:
    """The proposal for a line that returns a transfer.

    Args:
        connection: Where the case is locked.
        account: The case's.
        case: Of the line's day.
        returns: The end-to-end id of the transfer, if the line does not name it.
        line: The line's id, if several incoming lines of the day wait.

    Raises:
        BadRequest: The case or its line is of another kind, or this line cannot return the transfer.
    """
    item, original = await _find(connection, account, case, returns, line)
    return dict(
        amount_cents=item.amount_cents,
        holder_id=original.holder_id,
        direction="IN",
        line=item.item_id,
        **{RETURNS: original.end_to_end_id},
    )


async def record_return(context: Operator, writes: Writer, proposal: Proposal) -> None:
    """Record the return as it was proposed, and join its line."""
    async with confirming(context, proposal) as (connection, account):
        case = await lock_case(connection, int(proposal.contents["case_id"]))
        # Judged once more: since the proposal a reading may have recorded it.
        said = proposal.contents
        item, original = await _find(connection, account, case, str(said[RETURNS]), str(said["line"]))
        report = _as_report(item, original, context)
        given_back = GivenBack(
            holder_id=original.holder_id,
            original_id=original.id,
            report=report,
            refund_id=await IdBlocks(writes.pool).refund_id(),
            is_refusable=False,
        )
        (outcome,) = await RECEIVE_RETURNS.write(Batch([given_back], connection, context.clock))
        if isinstance(outcome, Exception) or outcome.misfit or outcome.acknowledgement is None:
            raise errors.BadRequest("confirm: a return of this name is recorded with other contents")
        recorded = (await refund_store.find_named(connection, [report.return_id], "IN"))[report.return_id]
        join = ItemJoin(item_id=item.item_id, key=("refund", recorded.id), by="name")
        await item_store.join(connection, account.id, [join])
        await record_confirmed(context, connection, account, proposal, report)
    await settle_items(writes, account, item.day)


async def _find(
    connection: Connection, account: InstitutionAccount, case: Case, returns: str | None, line: str | None
) -> tuple[RecordedItem, Transfer]:
    if case.kind != "day" or case.ended_at is not None:
        raise errors.BadRequest("case: only a line of a day whose case is open gives a transfer back")
    waiting = await list_waiting(connection, account.id, date.fromisoformat(case.name))
    items = [item for item in waiting if item.direction == "IN" and line in (None, item.item_id)]
    if len(items) != 1:
        raise errors.BadRequest(f"line: {len(items)} lines of {case.name} came in and wait: name one of them")
    (item,) = items
    name = returns or item.end_to_end_id
    if name is None:
        raise errors.BadRequest("returns: the line names no Pix: say the end-to-end id of the one that it gives back")
    original = (await transfer_store.find_named(connection, [name], "OUT")).get(name)
    if original is None or original.institution_id != account.id or original.settled_at is None:
        raise errors.BadRequest(f"returns: no transfer {name} has left over {account.name}")
    left_cents = original.amount_cents - original.returned_cents
    if item.amount_cents > left_cents:
        raise errors.BadRequest(
            f"returns: {left_cents} cents of the transfer were not given back, and the line has more"
        )
    return item, original


def _as_report(item: RecordedItem, original: Transfer, context: Operator) -> ReturnReport:
    # A line dated by its day alone is of no certain instant: the return is dated when it is recorded.
    at = item.settled_at or context.clock.now()
    return ReturnReport(
        report_id=item.item_id,
        return_id=_name(item),
        original_end_to_end_id=original.end_to_end_id,
        amount_cents=item.amount_cents,
        reason="MD06",
        description=None,
        reported_at=at,
        settled_at=at,
    )


def _name(item: RecordedItem) -> str:
    """The network's, or one that this line alone has."""
    for name in (item.return_id, item.end_to_end_id):
        if name is not None and is_return_id(name):
            return name
    digest = hashlib.sha256(f"{item.institution_id}|{item.item_id}".encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"D{UNNAMED_ISPB}{item.day:%Y%m%d}0000{digest}"
