"""Answers that are remembered: lines that two operators always set aside are no question any more.

::

    rehearsed     two operators set lines of one reason, direction and form aside; another answer begins anew
        │         three days at least, the last 90 days after the first
        ▼
    remembered    by two operators: the worker sets such lines aside, and the schema audits each line
        │         another answer about such a line, or an answer that is taken back
        ▼
    revoked       or by one operator; the rehearsal begins anew

The schema (``list_rehearsals``, ``find_pattern``) decides what was rehearsed and which lines a pattern covers, and refuses all
others. A pattern never posts money: balances prove that a line is money, and not that it is no Pix of this service.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from pixconnect.features.cases import tables as case_store
from pixconnect.features.cases.rules import Rehearsal
from pixconnect.features.cases.service.answer import LINES_MAX
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.service.account import found, name_account
from pixconnect.features.institutions.service.proposals import confirming, record_confirmed
from pixconnect.features.institutions.service.statement import settle_if_free
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.audit import make_proposal, propose
from pixconnect.kernel.flows.context import Core, Operator, Writer, write_alone
from pixconnect.kernel.rules.proposal import Proposal
from pixconnect.kernel.tables import proposal as proposal_store
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import to_day

REHEARSED_FOR: Final = timedelta(days=90)
REHEARSED_DAYS_MIN: Final = 3
_KEY: Final = ("reason", "direction", "form")


async def list_patterns(context: Core, name: str) -> list[Rehearsal]:
    """List the lines that an account's operators set aside again and again, with the patterns that are remembered.

    Raises:
        NotFound: The account does not exist.
    """
    account = found(await account_store.find_named(context.pool, name), name)
    return await case_store.list_rehearsals(context.pool, account.id)


async def propose_memory(context: Operator, name: str, item_id: str) -> Proposal:
    """Propose to set lines like one aside without a question; nothing happens before another operator confirms it.

    Raises:
        NotFound: The account does not exist, or no such line was set aside.
        BadRequest: It is remembered already, or not rehearsed for long enough.
    """
    async with write_alone(context.pool) as connection:
        account = found(await account_store.find_named(connection, name), name)
        await proposal_store.lock_account(connection, account.id)
        rehearsals = await case_store.list_rehearsals(connection, account.id)
        one = next((one for one in rehearsals if one.item_id == item_id), None)
        rehearsal = errors.found(one, f"line: {item_id} is no line that `pixconnect case patterns {name}` prints")
        _check(rehearsal)
        contents = dict[str, str | int]({name: getattr(rehearsal, name) for name in _KEY})
        contents |= dict(item_id=item_id, days_count=rehearsal.days_count)
        proposal = make_proposal(context, "remember", contents, institution_id=account.id)
        return await propose(context, connection, "case remember", name_account(name), proposal)


def _check(rehearsal: Rehearsal) -> None:
    if rehearsal.pattern_id is not None:
        raise errors.BadRequest(f"line: pattern {rehearsal.pattern_id} is remembered already")
    if rehearsal.days_count < REHEARSED_DAYS_MIN or rehearsal.last_at - rehearsal.began_at < REHEARSED_FOR:
        raise errors.BadRequest(
            f"line: answered on {rehearsal.days_count} days from {to_day(rehearsal.began_at)} to "
            f"{to_day(rehearsal.last_at)}: needs {REHEARSED_DAYS_MIN}, the last {REHEARSED_FOR.days} days after the first"
        )


async def remember_answer(context: Operator, writes: Writer, proposal: Proposal) -> None:
    """Remember the answer, unless operators have answered otherwise since it was proposed."""
    async with confirming(context, proposal) as (connection, account):
        await item_store.lock_recording(connection, account.id)
        rehearsals = await case_store.list_rehearsals(connection, account.id)
        wanted = {name: proposal.contents[name] for name in _KEY}
        one = next((one for one in rehearsals if {name: getattr(one, name) for name in _KEY} == wanted), None)
        if one is None:
            raise errors.BadRequest("confirm: operators have answered otherwise meanwhile: propose it again")
        _check(one)
        pattern_id = await case_store.remember(connection, account.id, one.reason, one.direction, one.form)
        await record_confirmed(context, connection, account, proposal, dict(pattern=pattern_id))


async def forget_pattern(context: Operator, name: str, pattern_id: int) -> None:
    """Revoke a pattern at once: it sets nothing aside any more. ``NotFound`` without the account or such a pattern."""
    async with write_alone(context.pool) as connection:
        account = found(await account_store.find_named(connection, name), name)
        # After it, no process is setting lines aside by the pattern.
        await item_store.lock_recording(connection, account.id)
        known = {one.pattern_id: one for one in await case_store.list_rehearsals(connection, account.id)}
        pattern = errors.found(known.get(pattern_id), f"pattern: {name} remembers none with the id {pattern_id}")
        await case_store.forget(connection, pattern_id, context.clock.real_now(), context.operator)
        await audit.record(context, connection, "case forget", name_account(name), before=pattern)


async def answer_remembered(context: Writer, account: InstitutionAccount) -> None:
    """Set aside the lines of finished days that remembered patterns cover; later rounds take what is beyond 100."""
    today = to_day(context.clock.now())
    if not await case_store.list_remembered(context.pool, account.id, today, 1):
        return
    async with write_alone(context.pool) as connection:
        # As a confirmation does: a line is either judged and posted, or answered.
        if not await day_store.lock_work(connection, account.id):
            return
        await item_store.lock_recording(connection, account.id)
        waiting = dict(await case_store.list_remembered(connection, account.id, today, LINES_MAX))
        await item_store.note_waiting(connection, account.id, dict.fromkeys(waiting, "no_money"))
    if waiting:
        await settle_if_free(context, account, min(waiting.values()))
