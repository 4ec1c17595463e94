"""Answers for lines of an account's day: two operators identify lines of the institution's statement.

::

    counts    the line is money: it is joined or posted as any other line that counts
    ours      the line is a settled transfer or refund here, or sums its day's transfers: it is joined, and nothing moves
    aside     it is no money, or the opening balance has it: it moves nothing, in any later file that lists it
    out       the bank has removed it: the opposite of its movement is posted, and dated when it is confirmed

A confirmation is one transaction. Counting lines are settled after it, and by the worker if this process dies before that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Final

import msgspec
from msgspec import Struct

from pixconnect.features.cases.rules import Case
from pixconnect.features.institutions.rules import joining
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.joining import BookLine, ItemJoin, LineKey, RecordedItem, Waiting
from pixconnect.features.institutions.rules.sum_line import is_sum
from pixconnect.features.institutions.rules.unmatched import ANSWERS, OUTCOMES, Answer, count_as_movement, find_sums
from pixconnect.features.institutions.service import proposals
from pixconnect.features.institutions.service.day import DayLines, list_waiting
from pixconnect.features.institutions.service.line_joining import list_failed
from pixconnect.features.institutions.service.statement import settle_if_free
from pixconnect.features.institutions.service.statement_posting import describe_movements, find_holders
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.features.institutions.tables import statement_file as line_store
from pixconnect.features.movements import tables as movement_store
from pixconnect.features.movements.service import RECEIVE_MOVEMENTS, ReportedMovement, StruckItem, take_back_struck
from pixconnect.kernel.flows.audit import make_proposal, propose
from pixconnect.kernel.flows.context import Operator, Writer, write_alone
from pixconnect.kernel.rules.proposal import Proposal
from pixconnect.kernel.rules.rail import MovementKind
from pixconnect.kernel.tables import ledger as ledger_store
from pixconnect.kernel.writing.batch import Batch
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection

LINES_MAX: Final = 100
OURS_APART_MAX: Final = timedelta(days=35)  # maximum distance of a line from its transfer or refund
SUM: Final = "sum"
OWN_MAX: Final = 5
_AROUND: Final = 3
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[str]).decode
_decode_own = msgspec.json.Decoder(dict[str, str]).decode


class WantedAnswer(Struct, frozen=True, kw_only=True):
    """Lines of a day by their ids."""

    case_id: int
    counts: Sequence[str] = ()
    ours: Mapping[str, str] = {}  # the record of each, such as ``transfer:12``, or ``SUM``
    aside: Sequence[str] = ()
    out: Sequence[str] = ()
    holder_id: int | None = None  # the owner of lines that count; by default that of the named Pix, or the house
    # Also lines of other days with the same reason to wait, direction and, except for numbers, text.
    with_alike: bool = False


class PossibleAnswer(Struct, frozen=True, kw_only=True):
    item_id: str
    answer: Answer
    own: str | None = None  # for ``ours``, the line's record in the form of ``case answer``
    posts_cents: int = 0  # the posting if the line matches no record; negative for outgoing money
    kind: MovementKind | None = None
    holder_id: int | None = None  # the holder of the account it is posted to
    lacking_cents: int = 0  # that holder's missing money, which would be owed


class BalancePoint(Struct, frozen=True, kw_only=True):
    item: RecordedItem
    balance_cents: int | None  # after the line; ``None`` if no balance before the day is known


class Plan(Struct, frozen=True, kw_only=True):
    items: dict[Answer, list[RecordedItem]]
    joins: Sequence[ItemJoin]  # matches for the ``items`` that are ours
    struck: Sequence[StruckItem]  # those of ``items`` to strike that have moved money
    # The change of each holder's money, in cents, if no counting line is a Pix of this service.
    moves: Mapping[int, int]
    holder_id: int | None


def read_own(text: str) -> tuple[str, str]:
    """Read a line and our record of it, as operators write it: ``N1=transfer:12``, or the line alone for a sum."""
    line, _, own = text.rpartition("=")
    return (line, own) if own.startswith(("transfer:", "refund:")) else (text, SUM)


async def propose_answer(context: Operator, wanted: WantedAnswer) -> Proposal:
    """Propose the meaning of lines of a day; nothing moves before another operator confirms it on the case's account.

    Raises:
        NotFound: The case does not exist, or its account was removed.
        BadRequest: The case is of no day, has ended, or a line does not wait, or not for such an answer.
    """
    async with write_alone(context.pool) as connection:
        await proposals.lock_to_propose(connection, wanted.case_id)
        case = await proposals.lock_case(connection, wanted.case_id)
        account = await proposals.find_account_of(connection, case)
        name = _check(case, account)
        day = None if wanted.with_alike else date.fromisoformat(name)
        waiting = {item.item_id: item for item in await list_waiting(connection, account.id, day)}
        named: dict[Answer, Sequence[str]] = {"counts": wanted.counts, "aside": wanted.aside, "out": wanted.out}
        if wanted.with_alike:
            named = _add_alike(named, waiting)
        plan = await _plan(connection, account, named, wanted.ours, waiting, wanted.holder_id)
        reserved = await line_store.list_reserved(connection, account.id, [one.item_id for one in plan.items["counts"]])
        lacking = await find_lacking(connection, plan.moves, {account.house_id: sum(reserved.values())})
        contents: dict[str, str | int] = dict(case_id=case.id, change_cents=sum(plan.moves.values()))
        contents["lacking_cents"] = sum(lacking.values())
        contents |= {f"lacking_cents_of_holder_{holder_id}": cents for holder_id, cents in lacking.items()}
        contents |= {answer: _encode([item.item_id for item in items]).decode() for answer, items in plan.items.items()}
        contents |= {} if wanted.holder_id is None else dict(holder_id=wanted.holder_id)
        contents |= dict(ours=_encode(wanted.ours).decode(), reasons=_encode(_list_reasons(plan)).decode())
        proposal = make_proposal(context, "answer", contents, institution_id=account.id)
        return await propose(context, connection, "case answer", f"case {case.id}", proposal)


async def answer_case(context: Operator, writes: Writer, proposal: Proposal) -> None:
    """Apply the answer, as long as each line still waits for such an answer."""
    contents = proposal.contents
    named: dict[Answer, list[str]] = {answer: _decode(str(contents[answer])) for answer in ANSWERS if answer != "ours"}
    ours = _decode_own(str(contents["ours"]))
    holder_id = int(contents["holder_id"]) if "holder_id" in contents else None
    async with proposals.confirming(context, proposal) as (connection, account):
        case = await proposals.lock_case(connection, int(contents["case_id"]))
        _check(case, account)
        await item_store.lock_recording(connection, account.id)
        waiting = {item.item_id: item for item in await list_waiting(connection, account.id, None)}
        plan = await _plan(connection, account, named, ours, waiting, holder_id)
        proposed = _decode_own(str(contents["reasons"]))
        for name, reason in _list_reasons(plan).items():
            if reason != proposed[name]:
                refusal = f"{name} waits as {reason} by now, and not as {proposed[name]}: look at the case again"
                raise errors.BadRequest(f"lines: {refusal}")
        await _write(writes, connection, account, plan)
        await proposals.record_confirmed(context, connection, account, proposal, dict(case_id=case.id, name=case.name))
    first_on = min(item.day for items in plan.items.values() for item in items)
    await settle_if_free(writes, account, first_on)


async def _write(writes: Writer, connection: Connection, account: InstitutionAccount, plan: Plan) -> None:
    to_join = [*(item.item_id for item in plan.items["counts"]), *(join.item_id for join in plan.joins)]
    if not await item_store.lock_alone(connection, account.id, to_join):
        raise errors.BadRequest("lines: one was joined meanwhile: look at the case again")
    await item_store.join(connection, account.id, plan.joins)
    await _count(writes, connection, account, plan)
    aside: dict[str, Waiting | None] = {
        item.item_id: "before_opening" if item.waits == "opening_day" else "no_money" for item in plan.items["aside"]
    }
    await item_store.note_waiting(connection, account.id, aside)
    if plan.struck:
        await take_back_struck(Batch(plan.struck, connection, writes.clock))
    await item_store.strike(connection, account.id, [item.item_id for item in plan.items["out"]])


def _list_reasons(plan: Plan) -> dict[str, str]:
    """List why each line waits whose answer means another thing for another reason."""
    return {item.item_id: item.waits or "new" for answer in ("counts", "aside") for item in plan.items[answer]}


def _check(case: Case, account: InstitutionAccount) -> str:
    if case.kind != "day" or case.ended_at is not None:
        raise errors.BadRequest("case: only the lines of a day whose case is open are answered")
    if account.state == "closed":
        raise errors.BadRequest(f"case: the account {account.name} is closed: nothing is posted on it any more")
    return case.name


async def _plan(
    connection: Connection,
    account: InstitutionAccount,
    named: Mapping[Answer, Iterable[str]],
    ours: Mapping[str, str],
    waiting: Mapping[str, RecordedItem],
    holder_id: int | None,
) -> Plan:
    replaced = await _find_replaced(connection, account, named, waiting)
    every: dict[Answer, Iterable[str]] = {**named, "ours": ours}
    answers: list[tuple[str, Answer]] = [(name, answer) for answer, names in every.items() for name in names]
    if not 0 < len(answers) <= LINES_MAX or len({name for name, _ in answers}) < len(answers):
        raise errors.BadRequest(f"lines: name 1 to {LINES_MAX} lines, each once, and these are {len(answers)}")
    items: dict[Answer, list[RecordedItem]] = {answer: [] for answer in ANSWERS}
    for name, answer in answers:
        is_replaced = answer == "out" and name in replaced
        item = replaced[name] if is_replaced else waiting.get(name)
        if item is None:
            raise errors.BadRequest(f"{answer}: no line {name} waits; `pixconnect case show` prints those that do")
        if not is_replaced and answer not in OUTCOMES[item.waits or "new"].answers:
            raise errors.BadRequest(f"{answer}: is no answer about line {name}, which waits as {item.waits}")
        items[answer].append(item)
    summed = [item for item in items["ours"] if ours[item.item_id] == SUM]
    others = [(item, ours[item.item_id]) for item in items["ours"] if item not in summed]
    joins = [join for item, own in others for join in await _find_own(connection, account, item, own)]
    sums = await _find_sums(connection, account, summed, {join.key for join in joins})
    if odd := next((item for item in summed if item.item_id not in sums), None):
        rule = "is not the sum of all unmatched Pix of its day, nor of only one choice: name all sums of the day at once"
        raise errors.BadRequest(f"ours: line {odd.item_id} {rule}")
    joins += sums.values()
    if len({(join.key, join.is_reversal) for join in joins}) < len(joins):
        raise errors.BadRequest("ours: one transfer or refund matches at most one line")
    moved = {_name_movement(item): item for item in items["out"]}
    holders = await movement_store.find_holders(connection, account.id, [*moved])
    standing = await movement_store.find_standing(connection, [(holder_id, name) for name, holder_id in holders.items()])
    struck = [
        StruckItem(holder_id=holder_id, item_id=name, reason=f"The bank has taken out {name} of {moved[name].day}")
        for holder_id, name in standing
    ]
    moves = Counter[int]()
    await _check_owner(connection, account, items["counts"], holder_id)
    counted = await find_holders(connection, account, items["counts"])
    for item in items["counts"]:
        moves[holder_id or counted[item.item_id]] += item.signed_cents
    for one in struck:
        moves[one.holder_id] -= moved[one.item_id].signed_cents
    return Plan(items=items, joins=joins, struck=struck, moves=moves, holder_id=holder_id)


def _name_movement(item: RecordedItem) -> str:
    """Name a line's movement; a process that died after posting it has not joined them."""
    return item.joined_id or joining.make_movement_id(item.item_id)


async def _check_owner(
    connection: Connection, account: InstitutionAccount, items: Sequence[RecordedItem], holder_id: int | None
) -> None:
    if holder_id is not None and any(item.direction == "IN" or item.waits != "could_be_ours" for item in items):
        raise errors.BadRequest("holder_id: permitted only if each line that counts is a debit that waits as could_be_ours")
    if holder_id is not None and holder_id not in await account_store.list_lying_on(connection, account.id):
        raise errors.BadRequest(f"holder_id: holder {holder_id} does not lie on the account {account.name}")


async def _find_replaced(
    connection: Connection,
    account: InstitutionAccount,
    named: Mapping[Answer, Iterable[str]],
    waiting: Mapping[str, RecordedItem],
) -> dict[str, RecordedItem]:
    """Find lines that may be struck because lines reported later under their ids, or in their place, count."""
    changed = [waiting[name] for name in named["counts"] if name in waiting and waiting[name].waits == "changed"]
    places = {(other.day, other.signed_cents) for other in changed}
    found = await item_store.find(connection, account.id, [*named["out"]])
    return {
        name: one
        for name, one in found.items()
        if one.waits is None and one.joined_kind in (None, "movement")
        if (one.day, one.signed_cents) in places or any(other.item_id.startswith(f"{name}~") for other in changed)
    }


async def _find_sums(
    connection: Connection, account: InstitutionAccount, items: Sequence[RecordedItem], taken: Collection[LineKey] = ()
) -> dict[str, ItemJoin]:
    found = dict[str, ItemJoin]()
    for day in {item.day for item in items}:
        lines = await line_store.list_unmatched(connection, account.id, (day, day))
        found |= find_sums([item for item in items if item.day == day], [line for line in lines if line.key not in taken])
    return found


async def _find_own(connection: Connection, account: InstitutionAccount, item: RecordedItem, own: str) -> list[ItemJoin]:
    """Match a line with the record that an operator names; a failed order with its waiting debit, too."""
    for line in await _list_fitting(connection, account, item):
        if f"{line.key[0]}:{line.key[1]}" == own:
            return [ItemJoin(item_id=item.item_id, key=line.key, by="answer")]
    for order, debit in await list_failed(connection, account, item):
        if f"{order.key[0]}:{order.key[1]}" == own:
            back = ItemJoin(item_id=item.item_id, key=order.key, by="answer", is_reversal=True)
            return [ItemJoin(item_id=debit.item_id, key=order.key, by="name"), back]
    near = f"within {OURS_APART_MAX.days} days of line {item.item_id}"
    raise errors.BadRequest(f"ours: no {own} is settled {near}, with its amount and direction, and without a line")


def _add_alike(named: Mapping[Answer, Sequence[str]], waiting: Mapping[str, RecordedItem]) -> dict[Answer, Sequence[str]]:
    """Add the lines of each answer's patterns; a named line keeps its own answer."""

    def mark(one: RecordedItem) -> tuple[str | None, str, str]:
        return one.waits, one.direction, joining.read_form(one.text)

    every = {name for names in named.values() for name in names}
    added = dict[Answer, Sequence[str]]()
    for answer, names in named.items():
        marks = {mark(waiting[name]) for name in names if name in waiting and waiting[name].text}
        added[answer] = [*names, *(name for name, one in waiting.items() if mark(one) in marks and name not in every)]
    return added


async def _count(writes: Writer, connection: Connection, account: InstitutionAccount, plan: Plan) -> None:
    """Count lines that were in no sum; one that resembles a Pix of this service is posted now, as it is none."""
    items = plan.items["counts"]
    aside = [item for item in items if item.waits is not None and not OUTCOMES[item.waits].counts]
    await item_store.note_waiting(connection, account.id, {item.item_id: None for item in aside})
    left = [count_as_movement(item) for item in items if item not in aside]
    if not left:
        return
    described = await describe_movements(writes, connection, account, left, {}, plan.holder_id)
    reports = [ReportedMovement(holder_id=holder_id, report=report, is_refusable=False) for holder_id, report in described]
    for outcome in await RECEIVE_MOVEMENTS.write(Batch(reports, connection, writes.clock)):
        if isinstance(outcome, Exception) or outcome.misfit is not None or outcome.refusal_code is not None:
            raise errors.BadRequest("counts: a line of this name is recorded with other contents")
    joins = [
        ItemJoin(item_id=one.item.item_id, key=("movement", report.item_id), by="answer")
        for one, (_, report) in zip(left, described, strict=True)
    ]
    await item_store.join(connection, account.id, joins)


async def find_lacking(connection: Connection, moves: Mapping[int, int], reserved: Mapping[int, int]) -> dict[int, int]:
    """Return the amounts beyond holders' balances, which they would owe.

    Args:
        moves: Cents by holder; negative for outgoing money.
        reserved: Cents by holder that are reserved for it.
    """
    lacking = dict[int, int]()
    for holder_id, cents in moves.items():
        balance = await ledger_store.find_balance(connection, holder_id)
        there_cents = reserved.get(holder_id, 0) + (balance.available_cents if balance is not None else 0)
        if cents < 0 and there_cents < -cents:
            lacking[holder_id] = -cents - there_cents
    return lacking


async def list_answers(
    connection: Connection, account: InstitutionAccount, items: Sequence[RecordedItem]
) -> list[PossibleAnswer]:
    items = [item for item in items if OUTCOMES[item.waits or "new"].answers][:LINES_MAX]
    holders = await find_holders(connection, account, items)
    reserved = await line_store.list_reserved(connection, account.id, [item.item_id for item in items])
    moved = await movement_store.find_holders(connection, account.id, [_name_movement(one) for one in items])
    ours = [one for one in items if "ours" in OUTCOMES[one.waits or "new"].answers]
    groups = [[*filter(is_sum, ours)], ours, *[[one] for one in ours]]
    sums = {name for group in groups for name in await _find_sums(connection, account, group)}
    found = list[PossibleAnswer]()
    for item in items:
        for answer in OUTCOMES[item.waits or "new"].answers:
            if answer == "ours":
                own = [*([SUM] if item.item_id in sums else []), *await _list_own(connection, account, item)]
                found += [PossibleAnswer(item_id=item.item_id, answer=answer, own=one) for one in own]
                continue
            holder_id = moved.get(_name_movement(item)) if answer == "out" else holders[item.item_id]
            if answer == "aside" or holder_id is None:
                found.append(PossibleAnswer(item_id=item.item_id, answer=answer))
                continue
            cents = -item.signed_cents if answer == "out" else item.signed_cents
            own_cents = 0 if answer == "out" else reserved.get(item.item_id, 0)
            lacking = (await find_lacking(connection, {holder_id: cents}, {account.house_id: own_cents})).get(holder_id, 0)
            kind = "reversal" if answer == "out" else count_as_movement(item).kind
            found.append(
                PossibleAnswer(
                    item_id=item.item_id,
                    answer=answer,
                    posts_cents=cents,
                    kind=kind,
                    holder_id=holder_id,
                    lacking_cents=lacking,
                )
            )
    return found


async def _list_own(connection: Connection, account: InstitutionAccount, item: RecordedItem) -> list[str]:
    """List our possible records of a line that is no sum, nearest days first."""
    if is_sum(item):
        return []
    fitting = await _list_fitting(connection, account, item)
    fitting += [order for order, _ in await list_failed(connection, account, item)]
    nearest = sorted(fitting, key=lambda line: abs(line.day - item.day))[:OWN_MAX]
    return [f"{line.key[0]}:{line.key[1]}" for line in nearest]


async def _list_fitting(connection: Connection, account: InstitutionAccount, item: RecordedItem) -> list[BookLine]:
    days = item.day - OURS_APART_MAX, item.day + OURS_APART_MAX
    lines = await line_store.list_unmatched(connection, account.id, days, amounts=[item.amount_cents])
    return [line for line in lines if line.key[0] != "movement" and joining.fits(item, line)]


def run_balance(day: DayLines, waiting: Sequence[RecordedItem]) -> list[BalancePoint]:
    """Return the lines around each waiting one with the balance after each; a line that does not count leaves it unchanged."""
    balance_cents = day.shown.opening_cents
    points = list[BalancePoint]()
    for item in sorted(day.items, key=lambda one: (one.settled_at is None, one.settled_at, one.item_id)):
        if balance_cents is not None and (item.waits is None or OUTCOMES[item.waits].counts):
            balance_cents += item.signed_cents
        points.append(BalancePoint(item=item, balance_cents=balance_cents))
    names = {item.item_id for item in waiting}
    near = {at + apart for at, one in enumerate(points) if one.item.item_id in names for apart in range(-_AROUND, _AROUND + 1)}
    return [point for number, point in enumerate(points) if number in near]
