"""Holders' answers to contests: read, list, answer, send, remind; and reading contests at an account.

An answer is stored before it is sent. One with an unknown outcome is resent: at an institution repetitions are idempotent.

Contests that are read at an account are reported in the form of a rail. Each report has a contest's whole state, so a list that
shifts, repeats itself or comes late is harmless.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import structlog
from msgspec import Struct

from pixconnect.doors.worker.parts import poll_slots
from pixconnect.features.contests import tables as infraction_store
from pixconnect.features.contests.rules import infraction as infraction_rules
from pixconnect.features.contests.rules.infraction import Infraction, is_repetition
from pixconnect.features.contests.service.infraction import announce
from pixconnect.features.contests.tables import INFRACTIONS, IS_ANY_DUE
from pixconnect.features.institutions.accounts import find_abilities
from pixconnect.features.institutions.rules.institution import OpenAccount
from pixconnect.features.institutions.rules.sweep import (
    CONTESTS_SPAN,
    Contests,
    ContestWord,
    ListedContest,
    MalformedItem,
    is_due,
)
from pixconnect.features.institutions.service.refund import record_returns
from pixconnect.features.institutions.service.sweep import keep_unreadable, note_end, noting_failure
from pixconnect.features.institutions.tables import day as sweep_store
from pixconnect.features.movements import tables as movement_store
from pixconnect.features.movements.held_blocks import HeldBlocks
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.audit import Act
from pixconnect.kernel.flows.context import Context, write_alone
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.register import ARRANGEMENT
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.block_report import (
    Defence,
    DefenceAnswer,
    DefenceUnknown,
    InfractionReport,
    InfractionState,
    TakenPart,
)
from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.listing import Page, Span
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import refund as refund_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.tables.clock import service_now_to_write
from pixconnect.kernel.writing.batch import Batch, WriteOperation
from pixconnect.kernel.writing.unit_of_work import begin_money_work
from pixconnect.platform.base import errors

EVERY: Final = 20
"""As a multiple of the readings of incoming Pix: five minutes by default.

A contest lasts for days, and a list covers half a year.
"""
EVERY_IF_CALLED: Final = 4
"""As ``EVERY``, after a call from the institution, which may mean a new contest."""

_log = structlog.get_logger(__name__)


class ShownInfraction(Struct, frozen=True, kw_only=True):
    infraction: Infraction
    held_cents: int
    text_length_max: int


class InfractionAnswer(Struct, frozen=True, kw_only=True):
    holder_id: int
    infraction_id: int
    text: str | None = None
    """The holder's answer."""
    answer: DefenceAnswer | None = None
    """The institution's response to a sent text; without either it is a reminder."""
    sent: str | None = None


async def read_infraction(context: Context, caller: Caller, infraction_id: int) -> ShownInfraction:
    found = await infraction_store.find_by_id(context.pool, caller.holder_id, infraction_id)
    return (await _show(context, [errors.found(found, "id: there is no such infraction")]))[0]


async def list_infractions(
    context: Context, caller: Caller, state: InfractionState | None, span: Span
) -> Page[ShownInfraction]:
    page = await infraction_store.read_page(context.pool, caller.holder_id, state, span)
    return page.with_items(await _show(context, page.items))


async def _show(context: Context, found: Sequence[Infraction]) -> list[ShownInfraction]:
    held = await movement_store.read_covered(context.pool, [each.name for each in found]) if found else {}
    return [
        ShownInfraction(
            infraction=each,
            held_cents=held.get((each.holder_id, each.institution_id, each.name), 0),
            text_length_max=(await find_abilities(context, each.institution_id)).defence_length_max,
        )
        for each in found
    ]


async def defend(context: Context, caller: Caller, infraction_id: int, text: str, act: Act | None = None) -> ShownInfraction:
    """Answer an infraction; repetitions are idempotent.

    Args:
        act: The console's: it is recorded in the transaction that stores the answer.

    Raises:
        BadRequest: The institution does not accept such a text.
        InfractionAnswered: It was answered before, with another text.
        InfractionClosed: It is decided, or the deadline has passed.
    """
    found = (await read_infraction(context, caller, infraction_id)).infraction
    infraction_rules.check_defence(await find_abilities(context, found.institution_id), text)
    # It may be a predecessor's.
    if act is None:
        answering = InfractionAnswer(holder_id=found.holder_id, infraction_id=found.id, text=text)
        return (await _show(context, [await context.writes.submit(ANSWER_INFRACTIONS, answering)]))[0]
    # Outside of batches, whose connections may not write the audit. Nothing here needs the balance's lock.
    key = (found.id, found.holder_id)
    async with write_alone(context.pool) as connection:
        before = (await infraction_store.lock_by_id(connection, [key]))[key]
        # Read under the lock: its deadline may have passed while we waited for that.
        now = await service_now_to_write(context.clock, connection)
        after = infraction_rules.defend(before, text, now)
        if after is not before:
            await infraction_store.move(connection, after)
            await audit.record_act(connection, act)
    return (await _show(context, [after]))[0]


async def do_due(context: Context, slots: Sequence[int], count_max: int) -> int:
    """Send pending answers and due reminders, in some slots; return the number due."""
    now = context.clock.now()
    due = await infraction_store.find_due(context.pool, slots, now, count_max)
    sending = [each for each in due if each.institution_id is None and each.send_at is not None and each.send_at <= now]
    answers = await _send(context, sending)
    reminders = [InfractionAnswer(holder_id=each.holder_id, infraction_id=each.id) for each in due if each not in sending]
    await _note(context, [*_join(sending, answers), *reminders])
    return len(due)


async def _send(context: Context, sending: Sequence[Infraction]) -> Sequence[DefenceAnswer]:
    if not sending:
        return []
    try:
        answers = await context.rail.send(infraction_rules.DEFENCES, [_word(each) for each in sending])
        if len(answers) == len(sending):
            return answers
        _log.error("a rail answers not as many as it was sent", sent_count=len(sending), answers_count=len(answers))
    except Exception as error:  # noqa: BLE001  a defect of a rail must not stop reminders, nor the slots for good
        _log.exception("cannot send answers to contests", reason=type(error).__name__)
    return [DefenceUnknown() for _ in sending]


async def send_due_defences(context: Context, opened: OpenAccount, count_max: int) -> int:
    """Send pending answers to one institution, one after the other; return the number due. The context is the account's."""
    contests = opened.institution.contests
    if contests is None:
        return 0
    due = await infraction_store.find_unsent_of_account(context.pool, opened.account.id, context.clock.now(), count_max)
    for each in due:
        # Recorded before the next one is sent, so that an interruption repeats at most one.
        await _note(context, _join([each], [await contests.defend(_word(each))]))
    return len(due)


def _word(infraction: Infraction) -> Defence:
    return Defence(name=infraction.name, text=infraction.defence or "")


def _join(sent: Sequence[Infraction], answers: Sequence[DefenceAnswer]) -> list[InfractionAnswer]:
    return [
        InfractionAnswer(holder_id=each.holder_id, infraction_id=each.id, answer=answer, sent=each.defence)
        for each, answer in zip(sent, answers, strict=True)
    ]


async def _note(context: Context, answers: Sequence[InfractionAnswer]) -> None:
    for outcome in await context.writes.submit_all(ANSWER_INFRACTIONS, answers):
        if isinstance(outcome, errors.PixConnectError):
            raise outcome


async def _answer_infractions(batch: Batch[InfractionAnswer]) -> list[Infraction | errors.PixConnectError]:
    work = await begin_money_work(batch)
    # Its event contains the blocked sum.
    await work.claim(HeldBlocks).read()
    found = await infraction_store.lock_by_id(work.connection, sorted({(each.infraction_id, each.holder_id) for each in batch}))
    outcomes: list[Infraction | errors.PixConnectError] = []
    for each in batch:
        key = each.infraction_id, each.holder_id
        before = found[key]
        reminds = False
        try:
            if each.text is not None:
                after = infraction_rules.defend(before, each.text, work.now)
            elif each.answer is not None:
                # An institution that has decided meanwhile has reported that.
                is_of_it = before.send_at is not None and before.defence == each.sent
                after = infraction_rules.note_answer(before, each.answer, work.now) if is_of_it else before
            else:
                after, reminds = infraction_rules.remind(before, work.now)
        except errors.RuleBroken as refusal:
            outcomes.append(refusal)
            continue
        outcomes.append(after)
        if after is not before:
            found[key] = after
            work.move(INFRACTIONS, before, after)
            if after.state != before.state:
                announce(work, after)
            elif reminds:
                announce(work, after, "infraction.reminded")
    await work.write()
    return outcomes


ANSWER_INFRACTIONS: Final = WriteOperation("answer_infractions", _answer_infractions)


async def follow_contests(context: Context, opened: OpenAccount, *, is_called: bool = False) -> int:
    """Read the list of contests if that is due, sooner if the institution has called since; return their number.

    Raises:
        InstitutionUnavailable: Facts recorded until then stay.
    """
    account, contests = opened.account, opened.institution.contests
    if contests is None:
        return 0
    lasts, now = await sweep_store.list_last_of(context.pool, account.id), context.clock.real_now()
    every = timedelta(seconds=account.poll_s * (EVERY_IF_CALLED if is_called else EVERY))
    # The contested payment is recorded first: nothing is read before payments were.
    if "near" not in lasts or not is_due("contests", lasts.get("contests"), every, now, account.lost_at):
        return 0
    async with noting_failure(context, account, "contests"):
        count = await read_contests(context, opened, contests)
    # All of it is read again each time, so a contest not recorded now comes again.
    await note_end(context, account, "contests", now, count)
    return count


async def read_contests(context: Context, opened: OpenAccount, contests: Contests) -> int:
    now, count = context.clock.real_now(), 0
    async for page in contests.list_contests(now - CONTESTS_SPAN, now):
        count += len(page)
        await _record(context, opened, page)
    return count


async def _record(context: Context, opened: OpenAccount, page: Sequence[ListedContest | MalformedItem]) -> None:
    account = opened.account
    listed = sorted(await keep_unreadable(context, account, page), key=lambda item: item.reported_at)
    if not listed:
        return
    transfers = await transfer_store.find_named(context.pool, [item.end_to_end_id for item in listed], "IN")
    party = (await context.directory.read_account(account.house_id)).party
    # One after the other: if a Pix has two contests, a return belongs to the first.
    for contest in listed:
        known = await infraction_store.find_named(context.pool, contest.name, account.id)
        transfer = transfers.get(contest.end_to_end_id)
        returned: Sequence[TakenPart] = ()
        if contest.status == "accepted" and transfer is not None and transfer.institution_id == account.id:
            returned = await _find_returned(context, opened, transfer, known)
        report = report_contest(contest, party, returned, context.clock.real_now())
        if known is None or not is_repetition(known, report):
            await take_reports(context, [report])


_STEPS: Final = dict[ContestWord, int]((("open", 0), ("answered", 1), ("accepted", 2), ("rejected", 3)))


def report_contest(contest: ListedContest, party: Party, returned: Sequence[TakenPart], now: datetime) -> InfractionReport:
    """Report a contest's whole present state, the same for each reading; ``now`` is real time, by which its times end."""
    taken = _choose_taken(contest, returned) if contest.status == "accepted" else ()
    rest_cents = contest.amount_cents - sum(part.amount_cents for part in taken)
    until = contest.opened_at + ARRANGEMENT.find("contest_block", contest.opened_at).duration
    state: InfractionState = "answered" if contest.status == "answered" else "open"
    held_cents, wanted_cents, reported_at, respond_by = rest_cents, rest_cents, contest.reported_at, contest.respond_by
    # A later state counts as reported later, even if the institution dates no change, or dates a return earlier.
    step = _STEPS[contest.status]
    if contest.status == "rejected":
        state, held_cents, wanted_cents = "released", 0, 0
    elif contest.status == "accepted":
        # Answers are no longer accepted; the money is blocked until it has gone.
        respond_by = min(respond_by, contest.reported_at)
        if taken or now >= until:
            state, held_cents, step = "taken", 0, step + 1 + len(taken)
            reported_at = max(reported_at, taken[-1].settled_at if taken else until)
            began_at = taken[0].settled_at if taken else until
            ends_at = began_at + ARRANGEMENT.find("rest_followed", began_at).duration
            # Later incoming money is blocked up to the rest, for this time only.
            if now >= ends_at:
                wanted_cents, reported_at = 0, max(reported_at, ends_at)
    reported_at += timedelta(microseconds=step)
    return InfractionReport(
        report_id=f"{contest.name}/{state}/{contest.amount_cents - rest_cents}/{int(reported_at.timestamp())}",
        name=contest.name,
        party=party,
        end_to_end_id=contest.end_to_end_id,
        amount_cents=contest.amount_cents,
        reason=contest.reason,
        situation=contest.situation,
        words=contest.words,
        state=state,
        opened_at=contest.opened_at,
        respond_by=respond_by,
        wanted_cents=wanted_cents,
        held_cents=held_cents,
        taken=tuple(taken),
        reported_at=reported_at,
        until=until,
    )


def _choose_taken(contest: ListedContest, returned: Sequence[TakenPart]) -> Sequence[TakenPart]:
    taken, left_cents = list[TakenPart](), contest.amount_cents
    for part in sorted(returned, key=lambda part: (part.settled_at, part.return_id)):
        # Returns before the contest was opened do not belong to it.
        if part.settled_at >= contest.opened_at and part.amount_cents <= left_cents:
            taken.append(part)
            left_cents -= part.amount_cents
    return taken


async def _find_returned(
    context: Context, opened: OpenAccount, transfer: Transfer, known: Infraction | None
) -> Sequence[TakenPart]:
    """Find the returns of a Pix that belong to no other contest, by the books after the Pix was read."""
    # Later returns are found by the readings of returns.
    if known is None or known.is_open:
        pix = await opened.institution.read_received(transfer.network_id or transfer.end_to_end_id)
        if pix is not None:
            await record_returns(context, opened.account, [pix])
    key = transfer.id, transfer.holder_id
    refunds = (await refund_store.find_of_transfers(context.pool, [key])).get(key, [])
    theirs = [refund for refund in refunds if refund.made_by == "institution" and refund.flow == "OUT"]
    links = await refund_store.find_links(context.pool, [(refund.id, refund.holder_id) for refund in theirs])
    return [
        TakenPart(
            return_id=refund.shown_id,
            amount_cents=refund.amount_cents,
            settled_at=refund.network_settled_at or refund.settled_at or refund.created_at,
        )
        for refund in theirs
        if (link := links.get((refund.id, refund.holder_id))) is None or (known and link.infraction_id == known.id)
    ]


MEMBERS: Final = (poll_slots("defences", do_due, IS_ANY_DUE),)
