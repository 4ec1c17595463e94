"""Judges the closed days of accounts at institutions again, from the recorded facts."""

from __future__ import annotations

from datetime import datetime

from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.service.day import LOOKED_BACK, judge_anew
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.proof.rules.rule import Finding, Judgement
from pixconnect.features.proof.tables.institutions import CLOSED_DAYS
from pixconnect.platform.base.civil_time import to_day
from pixconnect.platform.pool import Connection


async def judge_accounts(connection: Connection, now: datetime) -> tuple[list[Judgement], list[Finding]]:
    """Of each account until when its days are closed, and each closed day that would not close now."""
    judgements, found = list[Judgement](), list[Finding]()
    for account in await account_store.list_all(connection):
        judgement, broken = await _judge_account(connection, account, now)
        judgements.append(judgement)
        found += broken
    return judgements, found


async def _judge_account(
    connection: Connection, account: InstitutionAccount, now: datetime
) -> tuple[Judgement, list[Finding]]:
    days = await judge_anew(connection, account, to_day(now) - LOOKED_BACK, now)
    found = [
        Finding(
            rule=CLOSED_DAYS.name,
            holder_id=None,
            ids=(f"account {account.name}", f"day {recorded.day}"),
            expected=recorded.state,
            found=judged.state,
            since=recorded.closed_at,
        )
        for recorded, judged in days
        if recorded.is_closed and judged.state != recorded.state
    ]
    closed_until = None
    for recorded, _ in days:
        # Up to the first gap: a later day that is closed proves nothing of the ones before it.
        if not recorded.is_closed:
            break
        closed_until = recorded.day
    if closed_until is None:
        judgement = Judgement(
            rule=CLOSED_DAYS.name,
            verdict="not_checkable",
            account=account.name,
            reason="no day of it has closed: its statement has no balance, or not yet",
        )
    else:
        judgement = Judgement(
            rule=CLOSED_DAYS.name,
            verdict="checked" if closed_until == days[-1][0].day else "provisional",
            account=account.name,
            reason=f"closed until {closed_until}",
        )
    return judgement, found
