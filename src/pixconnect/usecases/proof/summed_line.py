"""Joins a line of a statement that sums many Pix to them, by an operator's word; later ones of its text are joined as it is.

No money moves: the line and its transfers have one amount, and until then the line waits.
"""

from __future__ import annotations

from datetime import date

from pixconnect.domain.frame import errors
from pixconnect.domain.institutions import joining
from pixconnect.domain.institutions.joining import RecordedItem
from pixconnect.store.institutions import item as item_store
from pixconnect.store.institutions import line as line_store
from pixconnect.usecases.frame import audit
from pixconnect.usecases.frame.context import Operator, write_alone
from pixconnect.usecases.institutions.day import list_waiting
from pixconnect.usecases.institutions.proposing import find_account_of, lock_case


async def join_sum(context: Operator, case_id: int, line: str) -> tuple[RecordedItem, int]:
    """Join a line of a case's day to the transfers that it sums; also returns how many they are.

    Raises:
        NotFound: There is no such case, or its account was removed.
        BadRequest: The case is of no day or has ended, or the line is no sum of that day's transfers.
    """
    async with write_alone(context.pool) as connection:
        case = await lock_case(connection, case_id)
        account = await find_account_of(connection, case)
        if case.kind != "day" or case.ended_at is not None:
            raise errors.BadRequest("case: only lines of a day whose case is open are joined")
        day = date.fromisoformat(case.name)
        item = next((one for one in await list_waiting(connection, account.id, day) if one.item_id == line), None)
        if item is None:
            raise errors.BadRequest(f"line: no line {line[:40]} of {day} waits")
        parts = joining.find_parts(item, await line_store.list_unmatched(connection, account.id, (day, day)))
        if not parts:
            raise errors.BadRequest(
                "line: it is not the sum, or not the count, of all transfers of its day that no line is"
            )
        await item_store.join(connection, account.id, [joining.join_sum(item, parts)])
        said = dict(line=line, amount_cents=item.amount_cents, transfers_count=len(parts))
        await audit.record(context, connection, "case join", f"case {case_id}", after=said)
    return item, len(parts)
