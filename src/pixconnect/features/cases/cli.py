"""``pixconnect case``: differences between an institution or the rail and the books, until they ended.

``pixconnect proposal``: one operator's proposals, which another reads and confirms.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

from cyclopts import App, Parameter
from cyclopts.validators import Number

from pixconnect.doors.cli import operating, output, terminal
from pixconnect.doors.cli.failures import CommandError
from pixconnect.doors.cli.operating import HolderId, load_file
from pixconnect.doors.cli.output import Json, Shown
from pixconnect.doors.cli.whole_number import WHOLE_NUMBER
from pixconnect.features.cases import rules
from pixconnect.features.cases.service import adjustment as adjustment_usecases
from pixconnect.features.cases.service import answer as answer_usecases
from pixconnect.features.cases.service import case as case_usecases
from pixconnect.features.cases.service import case_ending as ending_usecases
from pixconnect.features.cases.service import pattern as pattern_usecases
from pixconnect.features.cases.service import proposal as proposal_usecases
from pixconnect.features.cases.service import separation as separation_usecases
from pixconnect.features.cases.service.adjustment import WantedAdjustment
from pixconnect.features.cases.service.answer import WantedAnswer
from pixconnect.features.cases.service.case import ShownCase
from pixconnect.features.cases.service.case_ending import WantedEnding
from pixconnect.features.institutions.cli.opening import AccountName
from pixconnect.features.institutions.rules.joining import RecordedItem
from pixconnect.features.institutions.rules.unmatched import OUTCOMES
from pixconnect.kernel.flows.context import Operator
from pixconnect.kernel.rules.proposal import Proposal
from pixconnect.platform.base import errors

app = App(name="case", help="Show and end differences between the books and the institution or rail.")
proposal_app = App(name="proposal", help="Read and confirm what waits for a second operator.")

_CaseNumber = Annotated[int, WHOLE_NUMBER, Parameter(validator=Number(gte=1, lt=2**53))]
CaseId = Annotated[_CaseNumber, Parameter(name=("--case-id", "--id"))]  # a case, as ``list`` prints its id
_Institution = Annotated[str | None, Parameter(help="Of this account at an institution only, by its name.")]
_Facts = Annotated[
    str | None, Parameter(help="Only those with these known facts, as `show` prints them: a fee's text, a reason.")
]
_COLUMNS: Final = ("id", "kind", "institution", "holder_id", "name", "amount_cents", "age_days", "ended_as", "facts")
_PROPOSAL_COLUMNS: Final = (
    "code", "subject", "act", "contents", "proposed_by", "confirmable_at", "acts_at", "lapses_at",
)  # fmt: skip


@app.command(name="list")
def list_(
    *,
    kind: rules.CaseKind | None = None,
    institution: _Institution = None,
    facts: _Facts = None,
    with_ended: Annotated[bool, Parameter(name="--all", negative=(), show_default=False)] = False,
    json: Json = False,
) -> None:
    """Print open cases, oldest first.

    Args:
        kind: Of this kind only.
        with_ended: Also print those that have ended.
    """
    found = operating.run(case_usecases.list_cases, with_ended=with_ended, kind=kind, institution=institution, facts=facts)
    shown = [_shown(one) for one in found]
    output.show_list("cases", shown, as_json=json, columns=_COLUMNS)


@app.command
def show(case_id: CaseId, *, json: Json = False) -> None:
    """Print one case: the known facts, notes, and how it ended.

    Args:
        case_id: Its id, as `list` prints it.
    """
    found: ShownCase = operating.run(case_usecases.read_case, case_id)
    notes = [output.pick(one, "operator noted_at note") for one in found.notes]
    adjusted = [_shown_adjustment(one) for one in found.adjustments]
    ending: Shown = {}
    if end := found.ending:
        evidence = f"{end.evidence_name} of {end.evidence_size} octets, SHA-256 {end.evidence_digest}"
        ending = dict(ending=f"{end.claim}, by {end.proposed_by} and {end.confirmed_by}, on {evidence}")
    waits: Shown = {} if found.waiting is None else dict(waiting=found.waiting.text)
    listed = dict(
        notes=notes,
        adjustments=adjusted,
        files=[output.pick(one, "name format is_own first_on last_on items_count recorded_at") for one in found.files],
        balances=[
            {**output.pick(one, "item_id=item.item_id balance_cents"), "amount_cents": one.item.signed_cents}
            for one in found.balances
        ],
        lines=[_show_line(one, found.reserved_cents.get(one.item_id)) for one in found.lines],
        answers=[
            output.pick(one, "item_id answer ours=own posts_cents kind holder_id")
            | {"lacking_cents": one.lacking_cents or None}
            for one in found.answers
        ],
    )
    listed_too: Shown = dict(listed) if json else {}
    output.show(_shown(found) | ending | waits | listed_too, as_json=json)
    for name, shown in listed.items():
        if shown and not json:
            terminal.print_line(f"\n{name}:")
            output.show_list(name, shown, as_json=False)


@app.command
def note(case_id: CaseId, text: str, *, json: Json = False) -> None:
    """Record a finding about a case, with your name.

    Args:
        case_id: Its id, as `list` prints it.
        text: Your finding.
    """
    noted = operating.run(case_usecases.note_case, case_id, text)
    output.show(dict(case_id=case_id, note=noted), as_json=json)


@app.command
def adjust(
    case_id: CaseId,
    *,
    kind: rules.AdjustmentKind,
    amount: Annotated[int | None, WHOLE_NUMBER] = None,
    holder_id: HolderId | None = None,
    undo: Annotated[int | None, WHOLE_NUMBER] = None,
    returns: str | None = None,
    line: str | None = None,
    json: Json = False,
) -> None:
    """Propose to adjust the books for an unrecorded fact of a day; another operator confirms it.

    With `--line` or `--returns`, a line that returns a transfer is recorded as the transfer's return, for its holder.

    The other operator runs `pixconnect proposal confirm`. It is dated then, and stays within the case's amount and sign.

    Args:
        case_id: Its id, as `list` prints it.
        kind: The source of the error, or that it was found; `written_off` moves the adjusted sum to the house, for good.
        amount: In cents; all that is left, if it is missing.
        holder_id: The owner of the money; the case's holder, if it is missing.
        undo: The adjustment, of `show`, to undo by its opposite.
        returns: Of a line of the institution: the end-to-end id of the transfer that it gives back, if it names none.
        line: The id of a line of that day that gives a transfer back.
    """
    wanted = WantedAdjustment(
        case_id=case_id, kind=kind, amount_cents=amount, holder_id=holder_id, undone_id=undo, returns=returns, line=line
    )
    show_proposed(operating.run(adjustment_usecases.propose_adjustment, wanted), as_json=json)


_Lines = Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)]


@app.command
def answer(
    case_id: CaseId,
    *,
    counts: _Lines = (),
    ours: _Lines = (),
    aside: _Lines = (),
    out: _Lines = (),
    holder_id: HolderId | None = None,
    with_alike: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    json: Json = False,
) -> None:
    """Propose the meaning of lines of an account's day, by their ids; another operator confirms it.

    The other operator runs `pixconnect proposal confirm`. `show` prints the waiting lines, and the permitted answers of each.

    Args:
        case_id: The day's case, as `list` prints its id.
        counts: A line that is money, and no transfer or refund here in question; repeat it for several.
        ours: A line and its transfer or refund, such as `N1=transfer:12`; the line alone, if it is the sum of all Pix of
            its day: later lines of such a text are matched automatically.
        aside: A line that is no money, or that the opening balance includes.
        out: A line that the bank has removed: the opposite of its movement is posted, dated when it is confirmed.
        holder_id: The owner of the debits that count; if it is missing, that of the Pix that they name, or the house.
        with_alike: Also lines of other days that wait for the same reason under the same text, with any numbers in it.
    """
    own = dict(map(answer_usecases.read_own, ours))
    wanted = WantedAnswer(
        case_id=case_id, counts=counts, ours=own, aside=aside, out=out, holder_id=holder_id, with_alike=with_alike
    )
    show_proposed(operating.run(answer_usecases.propose_answer, wanted), as_json=json)


@app.command
def separate(name: AccountName, *lines: str, json: Json = False) -> None:
    """Propose to separate lines of an account from records that are not theirs; another operator confirms it.

    Permitted for lines that were joined by an answer or by resemblance, and for sums. No money moves, but for a line that
    `--counts` has posted: the opposite of its movement is posted. The lines wait then, and `answer` says what they are.

    Args:
        lines: Their ids, as `institution days --lines` prints them.
    """
    show_proposed(operating.run(separation_usecases.propose_separation, name, lines), as_json=json)


@app.command
def patterns(name: AccountName, *, json: Json = False) -> None:
    """Print the lines of an account that operators set aside again and again, and the patterns that are remembered.

    A line with the `reason`, `direction` and `form` (`#` is any number) of a remembered pattern is set aside unasked.
    """
    found = operating.run(pattern_usecases.list_patterns, name)
    shown = [
        output.pick(one, "pattern=pattern_id reason direction form days_count began_at last_at item_id since answered_count")
        for one in found
    ]
    output.show_list("patterns", shown, as_json=json)


@app.command
def remember(name: AccountName, line: str, *, json: Json = False) -> None:
    """Propose to set lines like one aside from now on; another operator confirms it.

    Such lines must have been set aside on three days, the last at least 90 days after the first, with no other answer between.

    Args:
        line: The `item_id`, as `patterns` prints it.
    """
    show_proposed(operating.run(pattern_usecases.propose_memory, name, line), as_json=json)


@app.command
def forget(name: AccountName, pattern: _CaseNumber) -> None:
    """Revoke a remembered pattern at once. Lines that it has set aside stay so.

    Args:
        pattern: Its number, as `patterns` prints it.
    """
    operating.run(pattern_usecases.forget_pattern, name, pattern)
    terminal.notice(f"pattern {pattern} sets nothing aside any more")


@app.command
def close(
    *case_ids: _CaseNumber,
    reason: str | None = None,
    claim: Annotated[rules.EndingClaim | None, Parameter(name="--as")] = None,
    evidence: Path | None = None,
    item: str | None = None,
    kind: rules.CaseKind | None = None,
    institution: _Institution = None,
    facts: _Facts = None,
    json: Json = False,
) -> None:
    """Close settled cases. This moves no money; your name and reason are recorded.

    An order over an account at an institution whose queries remain unanswered ends by `--as` and `--evidence` instead, which
    moves its money once another operator has confirmed it by `pixconnect proposal confirm`.

    Several with one cause may be ended by one decision: name them, or all open ones of a kind with the same known facts.

    Args:
        case_ids: Their ids, as `list` prints them.
        reason: Your finding, and your action: the cause of all of them.
        claim: How the order of a case of that kind ended: another operator confirms it.
        evidence: With `--as`, the file with the evidence, of at most 1 MiB: its name, size and SHA-256 are kept.
        item: With `--as settled`, the line of the statement that it is, where several may be it.
        kind: All open ones of this kind instead.
    """
    if claim or evidence or item:
        is_one = len(case_ids) == 1 and reason is None and not (kind or institution or facts)
        if not is_one or claim is None or evidence is None:
            raise CommandError("--as: takes one case, and --evidence, and no --reason")
        content = load_file(evidence, rules.EVIDENCE_SIZE_MAX)
        file = rules.Evidence(name=evidence.name, size=len(content), digest=hashlib.sha256(content).hexdigest())
        wanted = WantedEnding(case_id=case_ids[0], claim=claim, evidence=file, item_id=item)
        show_proposed(operating.run(ending_usecases.propose_ending, wanted), as_json=json)
        return
    if reason is None:
        raise CommandError("--reason: required, or --as and --evidence for an order")

    async def do(context: Operator) -> list[ShownCase]:
        chosen = await _choose(context, case_ids, kind, institution, facts)
        return await case_usecases.close_cases(context, chosen, reason)

    ended = operating.run(do)
    output.show_list("cases", [_shown(one) for one in ended], as_json=json, columns=_COLUMNS)
    if not case_ids and len(ended) == case_usecases.LISTED_MAX:
        terminal.notice(f"the {len(ended)} oldest are closed: there may be more, so run it again")


async def _choose(
    context: Operator, case_ids: Sequence[int], kind: rules.CaseKind | None, institution: str | None, facts: str | None
) -> Sequence[int]:
    if case_ids and (kind or institution or facts):
        raise errors.BadRequest("case: name cases, or a kind of them, and not both")
    # Without a kind the other options would be ignored silently.
    if kind is None and (institution or facts):
        raise errors.BadRequest("kind: required, unless cases are named")
    if kind is None:
        return case_ids
    listed = await case_usecases.list_cases(context, kind=kind, institution=institution, facts=facts)
    return [one.case.id for one in listed]


def _shown(found: ShownCase) -> Shown:
    return {
        **output.pick(found, "id=case.id kind=case.kind institution holder_id=case.holder_id"),
        **output.pick(found.case, "name amount_cents facts since"),
        "age_days": found.age.days,
        **output.pick(found.case, "opened_at opened_count ended_at ended_as ended_by end_reason"),
    }


def _show_line(item: RecordedItem, reserved_cents: int | None) -> Shown:
    return {
        **output.pick(item, "item_id day direction amount_cents kind source recorded_at"),
        "reserved_cents": reserved_cents,
        "status": item.waits or "unmatched",
        "answers": ", ".join(OUTCOMES[item.waits or "new"].answers) or None,
        "text": item.text or None,
    }


def _shown_adjustment(one: rules.Adjustment) -> Shown:
    return {
        **output.pick(one, "id holder_id kind direction account amount_cents"),
        "deficit_cents": one.deficit_cents or None,
        **output.pick(one, "undoes=opposite_of proposed_by confirmed_by created_at"),
    }


@proposal_app.command(name="list")
def list_proposals(*, json: Json = False) -> None:
    """Print proposals that wait for a second operator, oldest first."""
    waiting = operating.run(proposal_usecases.list_proposals)
    shown = [
        {"subject": subject, "contents": dict(proposal.contents) if json else proposal.contents_text}
        | output.pick(proposal, "code act proposed_by confirmable_at acts_at lapses_at")
        for subject, proposal in waiting
    ]
    output.show_list("proposals", shown, as_json=json, columns=_PROPOSAL_COLUMNS)


@proposal_app.command
def confirm(code: str) -> None:
    """Confirm and execute another operator's proposal.

    Args:
        code: The code of the proposal that you have read in `list`: a later one, which may have replaced it, has another.
    """
    proposal = operating.run_writing(proposal_usecases.confirm_proposal, code)
    terminal.print_line(terminal.on_one_line(f"confirmed: {proposal.text}"))


def show_proposed(proposal: Proposal, *, as_json: bool) -> None:
    output.show(
        dict(act=proposal.act, code=proposal.code, **proposal.contents) | output.pick(proposal, "proposed_by confirmable_at"),
        as_json=as_json,
    )
