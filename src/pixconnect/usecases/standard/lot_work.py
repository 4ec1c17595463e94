"""What workers do for lots of charges: each charge by the write operation that a put or a patch of it alone takes.

What becomes of a charge and of its item is one transaction (``lot_item.py``), so nothing here is lost or done twice whenever a
worker is killed, or two are at it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import structlog
from msgspec import structs

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.violation import Violation
from pixconnect.domain.institutions.charge_change import decode_caller
from pixconnect.domain.money import ability
from pixconnect.domain.standard.charge_lot import Refusal, WantedItem, decode_asked
from pixconnect.domain.standard.location import WITH_DUE_DATE
from pixconnect.store.standard import charge_lot as lot_store
from pixconnect.store.standard.charge_lot import DueItem, ItemKey
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.standard.charge import NO_ADDRESS, make_write
from pixconnect.usecases.standard.charge_write import REMOVAL, WRITE_CHARGES, ChargeWrite
from pixconnect.usecases.standard.lot import NOT_THERE
from pixconnect.usecases.standard.lot_item import NOTED, ItemWrite, list_reasons

_NOT_MADE = Violation(
    property=f"{WITH_DUE_DATE}.status", reason="a cobrança não foi criada e não pode ser removida", value=REMOVAL
)

_log = structlog.get_logger(__name__)


async def do_due_items(
    context: Context, slots: Sequence[int], count_max: int, left_out: Collection[ItemKey] = ()
) -> tuple[int, set[ItemKey]]:
    """Carry out what is due in these slots, of each charge one request.

    Args:
        left_out: Items that failed a moment ago.

    Returns:
        How many were taken, and those that failed by no fault of theirs: their requests are still there.
    """
    due = await lot_store.find_due(context.pool, slots, count_max, len(left_out))
    taken = [each for each in due if _key_of(each) not in left_out]
    writes = [await _make_write(context, each) for each in taken]
    outcomes = await context.writes.submit_all(WRITE_CHARGES, writes)
    failed = {
        _key_of(each)
        for each, outcome in zip(taken, outcomes, strict=True)
        if isinstance(outcome, errors.PixConnectError) and not isinstance(outcome, NOTED)
    }
    if failed:
        _log.warning("items of lots wait", count=len(failed))
    return len(taken), failed


async def _make_write(context: Context, due: DueItem) -> ChargeWrite:
    request, asked = due.request, decode_asked(due.request.asked)
    is_first = due.charge_id is None
    is_change = asked.is_change and not is_first
    key = asked.change.key if is_change and asked.change else asked.contents.key if asked.contents else None
    caller = decode_caller(request.asked_by)
    location_id = asked.change_location_id if is_change else asked.location_id
    write = await make_write(context, caller, due.txid, WITH_DUE_DATE, key, location_id)
    refusal = _find_refusal(context, asked, is_first=is_first)
    write.item = ItemWrite(key=_key_of(due), number=request.number, is_first=is_first, refusal=refusal)
    if is_change:
        write.removes = asked.removes
        write.change = asked.change or write.change
        return write
    write.contents = asked.contents
    account = await context.directory.read_account(caller.holder_id)
    # No lot is taken there: this one was asked for before, and only what was made before is put again.
    if account.institution_id is not None and is_first:
        write.violations = [*write.violations, structs.replace(NOT_THERE, property=WITH_DUE_DATE)]
    if account.address is None:
        write.violations = [*write.violations, NO_ADDRESS]
    return write


def _find_refusal(context: Context, asked: WantedItem, *, is_first: bool) -> Refusal:
    if not is_first and asked.is_change:
        return asked.change_refusal
    try:
        # The rail may have become another since the lot was taken.
        ability.check_issues_codes(context.policy.abilities)
    except errors.RuleBroken as refusal:
        return list_reasons(refusal)
    return (_NOT_MADE,) if asked.removes else asked.contents_refusal


def _key_of(due: DueItem) -> ItemKey:
    return ItemKey(due.request.holder_id, due.request.lot_number, due.request.place)
