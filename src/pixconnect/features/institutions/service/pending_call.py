"""Makes a recorded call to an institution, and repeats its query until the outcome is known.

::

    [ a row, open ] ─► the institution, at most 3 s ─► [ the row has ended, with its charge and events ] ─► answer
                          │ unknown: 504, and a worker queries on, at longer and longer intervals
                          └ nothing was sent: 503, and the row is given up

``CallKind`` has the differences between opening and changing a charge. Orders use ``handover``: they are held, and sent in
batches under the fence of a slot. Defences and returns have no waiting caller; webhooks have no queue, as an operator repeats
the verb.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

import structlog
from msgspec import Struct

from pixconnect.features.institutions.accounts import INSTITUTIONS
from pixconnect.features.institutions.rules import institution as port
from pixconnect.features.institutions.rules.pending_call import CALL_TIMEOUT_S, TAKEN_FOR, PendingCall, find_wait
from pixconnect.features.institutions.tables.pending_call import PendingCalls
from pixconnect.kernel.flows.context import Context, or_unknown, write_alone
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.tables import charge as charge_store
from pixconnect.platform.base import errors
from pixconnect.platform.database_failure import DATABASE_FAILED

LOOK_EVERY_S: Final = 0.05
DUE_MAX: Final = 20  # rows of a kind that a worker queries before the account's other work

Row = TypeVar("Row", bound=PendingCall)
_log = structlog.get_logger(__name__)


class RefusedByInstitution(Exception):  # noqa: N818  each door has its own error for it
    """The institution certainly refuses it, or certainly would; nothing was done."""

    def __init__(self, refusal: port.CertainRefusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


class CallKind(Struct, Generic[Row], frozen=True, kw_only=True):
    rows: PendingCalls[Row]
    ask: Callable[[Context, port.Institution, Row], Awaitable[port.OpeningAnswer]]
    """Reads the charge's state at the institution, and calls if it is not as wanted."""
    settle: Callable[[Context, Row, port.OpeningAnswer], Awaitable[Charge | port.UnknownOutcome | None]]
    """Writes the end of a row: its charge, or why it is still open; ``None`` if ``rows`` have the end."""
    explain: Callable[[Row], Exception | None]  # explains why an ended row did not have the wanted effect
    unknown_outcome: Callable[[Row], errors.OutcomeUnknown]


async def require_account(context: Context, institution_id: int) -> port.OpenAccount:
    """Return a request's account; ``ServiceUnavailable`` while a loss of the database has paused it, and once it is closed."""
    opened = await context.port(INSTITUTIONS).find_receiving(institution_id)
    if opened is None:
        raise explain_pause()
    return opened


def explain_pause() -> errors.ServiceUnavailable:
    return errors.ServiceUnavailable("the account at the institution is paused: nothing was done", retry_after_s=30)


async def call_once(kind: CallKind[Row], row: Row, call: Awaitable[port.OpeningAnswer]) -> port.OpeningAnswer:
    try:
        async with asyncio.timeout(CALL_TIMEOUT_S):
            with or_unknown(kind.unknown_outcome(row)):
                return await call
    except TimeoutError:
        return port.UnknownOutcome(reason=f"no answer within {CALL_TIMEOUT_S:g} s")


async def answer_caller(context: Context, kind: CallKind[Row], row: Row, answer: port.OpeningAnswer) -> Charge:
    """Return a call's result to the caller whose process has made it."""
    refusal, is_given_up = None, False
    with or_unknown(kind.unknown_outcome(row)):
        match answer:
            case port.NotSent():
                async with write_alone(context.pool) as connection:
                    # If a worker calls by now, it is no longer certain that nothing was sent.
                    is_given_up = await kind.rows.end(connection, row, "given_up", answer.reason)
            case port.UnknownOutcome():
                pass
            case _:
                made = await kind.settle(context, row, answer)
                if isinstance(made, Charge):
                    return made
                refusal = answer if isinstance(answer, port.CertainRefusal) else None
    if isinstance(answer, port.NotSent) and is_given_up:
        wait_s = 1 if answer.retry_after is None else max(1, round(answer.retry_after.total_seconds()))
        reason = f"the institution could not be asked: {answer.reason}; nothing was done"
        raise errors.ServiceUnavailable(reason, retry_after_s=wait_s)
    return await await_end(context, kind, row, 0, refusal)


async def await_end(
    context: Context, kind: CallKind[Row], row: Row, wait_s: float = CALL_TIMEOUT_S, refusal: port.CertainRefusal | None = None
) -> Charge:
    """Wait until another process has ended the row, and return the charge.

    Args:
        row: Its earlier state.
        refusal: The institution's answer: it has more details than the row.
    """
    until_s = context.clock.monotonic_s() + wait_s
    unknown = kind.unknown_outcome(row)
    while True:
        with or_unknown(unknown):
            found = errors.require(await kind.rows.find_again(context.pool, row), "no row is ever forgotten")
        if found.state != kind.rows.open_state:
            break
        if context.clock.monotonic_s() >= until_s:
            raise unknown
        await asyncio.sleep(LOOK_EVERY_S)
    if (failure := kind.explain(found)) is not None:
        raise failure if found.state != "refused" or refusal is None else RefusedByInstitution(refusal)
    with or_unknown(unknown):
        charge = await charge_store.find_by_id(context.pool, row.holder_id, row.charge_id)
    return errors.require(charge, "an ended row has its charge")


async def go_on(context: Context, opened: port.OpenAccount, kind: CallKind[Row]) -> int:
    """Process the due rows of an account; returns their number. A defect of one stops none of the others."""
    began_at = context.clock.real_now()
    for count in range(DUE_MAX):
        # One by one: each is postponed from its own query on.
        again_at = context.clock.real_now() + TAKEN_FOR
        row = await kind.rows.take_due(context.pool, opened.account.id, began_at, again_at)
        if row is None:
            return count
        try:
            await ask_again(context, opened, kind, row)
        except (*DATABASE_FAILED, errors.PixConnectError):
            raise
        except Exception as error:  # noqa: BLE001  what one charge meets must not stop the others
            _log.exception("a call met a defect", txid=row.txid, state=row.state, reason=type(error).__name__)
    return DUE_MAX


async def ask_again(context: Context, opened: port.OpenAccount, kind: CallKind[Row], row: Row) -> bool:
    """Process one row; returns whether its outcome is known now."""
    answer = await kind.ask(context, opened.institution, row)
    left = await kind.settle(context, row, answer)
    if not isinstance(left, port.UnknownOutcome):
        return True
    again_at = context.clock.real_now() + find_wait(row.calls_count)
    await kind.rows.put_off(context.pool, row, again_at, left.reason)
    return False
