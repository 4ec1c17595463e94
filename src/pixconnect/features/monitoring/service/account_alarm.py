"""Pauses an account at an institution whose outgoing money suggests a stolen credential, or a drain.

A pause stops new outgoing money, and reading continues. Only an operator resumes the account; earlier observations raise no
alarm again. As with any pause, other processes see it after a second.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import structlog

from pixconnect.doors.worker.parts import Chore
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.monitoring import tables as alarm_store
from pixconnect.features.monitoring.tables import AlarmKind
from pixconnect.kernel.flows.context import Context, Core

STRAYS_MAX: Final = 2
"""Permitted Pix an hour without an order here: a person paid by hand, in the institution's app."""
STRAYS_SINCE: Final = timedelta(days=1)
"""Older ones only appear in a late statement: reading last month's must not pause the account."""
DRAIN_PERCENT: Final = 50
"""Of the balance and the incoming money, unless the account's options differ."""
DRAIN_MIN_CENTS: Final = 100_000
"""Less than R$ 1,000 in an hour is no drain, with any balance."""
_AN_HOUR: Final = timedelta(hours=1)

_log = structlog.get_logger(__name__)


def has_alarms(account: InstitutionAccount) -> bool:
    """Whether an account has alarms; a counterpart, where nothing can be stolen, only on request."""
    return account.options.get("alarms", account.environment != "counterpart") is True


async def describe_alarm(context: Core, institution_id: int) -> str | None:
    standing = [one for one in await alarm_store.list_alarms(context.pool) if one.institution_id == institution_id]
    return f"{standing[0].kind}: {standing[0].observation}" if standing else None


async def look_for_alarms(context: Context) -> None:
    """Pause each active account with too many unordered sends, or too much outgoing money."""
    async with context.pool.acquire() as connection:
        accounts = await account_store.list_all(connection)
    for account in accounts:
        if account.state == "active" and has_alarms(account):
            await _look_at(context, account)


async def _look_at(context: Context, account: InstitutionAccount) -> None:
    now = context.clock.now()
    # Observations that an operator has seen no longer count, or resuming the account would pause it again at once.
    seen_at = await alarm_store.find_last_alarm(context.pool, account.id) or account.opened_at
    strays_count = await alarm_store.count_strays(context.pool, account.id, max(seen_at, now - STRAYS_SINCE))
    if strays_count > STRAYS_MAX:
        await _raise(context, account, "strays", f"{strays_count} Pix left within an hour without an order here", now)
        return
    out_cents = await alarm_store.sum_out(context.pool, account.id, max(seen_at, now - _AN_HOUR))
    if out_cents < DRAIN_MIN_CENTS:
        return
    # The balance and the incoming money within the hour: the rest, and the outgoing money.
    before_cents = out_cents + await account_store.sum_balance_here(context.pool, account.id)
    percent = account.options.get("drain_percent", DRAIN_PERCENT)
    if out_cents * 100 > before_cents * int(percent):
        words = f"{out_cents} cents left within an hour, of {before_cents}: more than {percent} %"
        await _raise(context, account, "drain", words, now)


async def _raise(
    context: Context, account: InstitutionAccount, kind: AlarmKind, observation: str, now: datetime
) -> None:
    if await alarm_store.raise_alarm(context.pool, account.id, kind, observation, now):
        _log.critical("an account was paused", institution=account.name, reason=kind, said=observation)


CHORES: Final = (Chore(name="alarms", run=look_for_alarms, every_s=20.0),)
