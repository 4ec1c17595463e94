"""Gives back what pays no charge, where the account's operator wants that: after a reading that shows no return of it.

It was noted in the transaction that credited the payment, so nothing is given back that came while the option was off. What
cannot be made now (a contest, a limit, too little money) is tried again, listed with the reason, and becomes a case after a
day. What can never be made is given up: the payment stays credited, and is listed with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from msgspec import structs

from pixconnect.features.institutions.rules.give_back import (
    GiveBack,
    UnmatchedCredit,
    gives_back,
    judge_refusal,
    leave,
    plan_giving_back,
    wait_longer,
)
from pixconnect.features.institutions.rules.institution import InstitutionUnavailable, OpenAccount
from pixconnect.features.institutions.service.account import found
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.institutions.tables import give_back as give_back_store
from pixconnect.kernel.flows.context import Context, Operator
from pixconnect.kernel.flows.refund import START_REFUNDS
from pixconnect.kernel.rules import identifiers
from pixconnect.kernel.tables import refund as refund_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.platform.base import errors

AT_ONCE: Final = 16
LISTED_MAX: Final = 500


async def give_back_due(context: Context, opened: OpenAccount) -> None:
    """Begin the refunds that are due at an account; ``context`` is the account's."""
    for waiting in await give_back_store.find_due(context.pool, opened.account.id, context.clock.real_now(), AT_ONCE):
        try:
            after = await _give_back(context, opened, waiting)
        except (InstitutionUnavailable, errors.ServiceUnavailable, errors.OutcomeUnknown):
            after = wait_longer(waiting, context.clock.real_now())
        await give_back_store.move(context.pool, after)


async def _give_back(context: Context, opened: OpenAccount, waiting: GiveBack) -> GiveBack:
    if not gives_back(opened.account):
        return leave(waiting, "the account gives nothing back any more")
    received = await transfer_store.find_by_id(context.pool, waiting.holder_id, waiting.transfer_id)
    if received is None:
        raise errors.InvariantBroken("it was noted with its transfer")
    if received.charge_id is not None or received.settled_at is None:
        return leave(waiting, "it has paid a charge, or has not settled")
    planned = plan_giving_back(
        received,
        await context.ids.refund_id(),
        identifiers.make_return_id(context.policy.ispb, context.clock.now(), context.entropy),
    )
    # An earlier run may have begun it and died before recording it.
    if await refund_store.find_by_external_id(context.pool, received.holder_id, planned.external_id) is not None:
        return structs.replace(waiting, state="made", reason=None)
    listed = await opened.institution.read_received(received.end_to_end_id)
    if listed is None:
        raise InstitutionUnavailable("the institution does not know a Pix that it has listed")
    if any(refund.status != "refused" for refund in listed.refunds):
        return leave(waiting, "the institution lists a return of it")
    try:
        await context.writes.submit(START_REFUNDS, planned)
    except errors.RuleBroken as refusal:
        return judge_refusal(waiting, refusal, context.clock.real_now())
    return structs.replace(waiting, state="made", reason=None)


async def list_without_charge(context: Operator, name: str, days_count: int) -> Sequence[UnmatchedCredit]:
    """What came in on an account in the last days and pays no charge, the newest first.

    Raises:
        NotFound: There is no such account.
    """
    since = context.clock.real_now() - timedelta(days=days_count)
    async with context.pool.acquire() as connection:
        account = found(await account_store.find_named(connection, name), name)
        return await give_back_store.list_without_charge(connection, account.id, since, LISTED_MAX)
