"""The outcome of each line of an institution's statement, and whether it moved money: one table and its rules.

Entry points, all pure:

- ``judge_lines(lines, evidence)`` judges the lines of one statement file, in the file's order, against the recorded lines and
  balances of their days. It returns a ``JudgedLine`` for each line, and for each recorded line whose outcome changes.
- ``judge_listed(lines, known, today)`` judges lines of an institution's API, whose ids are the lines' identity.

Of lines equal in day, direction, amount, text and names, a file adds as many as it lists beyond the recorded ones. A line is
doubtful if it may be a balance, may be a recorded line under another text, day or id, or contradicts a day that two balances
have proved. A doubtful line counts only if the file lists it and exactly one choice of such lines makes the balances around
it agree: of a day that the file does not cover, the bank may have changed another line.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from datetime import date
from typing import Final

import msgspec
from msgspec import Struct, structs

from pixconnect.features.institutions.rules import balance_proof
from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.rules.joining import RecordedItem
from pixconnect.features.institutions.rules.unmatched import OUTCOMES, SET_ASIDE, Outcome
from pixconnect.platform.base.clock import to_day

_PROVED_NO_MONEY: Final[Mapping[Outcome, Outcome]] = {"perhaps_balance": "balance_line", "perhaps_known": "same_line"}
"""The outcome of a doubtful line if the balances agree without it."""
_FORMS: Final = frozenset[Outcome | None](("same_line", "withdrawn"))
"""Outcomes of lines set aside that may be another form of a counted one."""
_DOUBTS: Final = frozenset(("perhaps_balance", "balance_line", "perhaps_known", "same_line", "contradicts", "changed"))


class Evidence(balance_proof.Balances, frozen=True, kw_only=True):
    """The evidence for judging a file's lines."""

    known: Sequence[RecordedItem] = ()
    """Recorded lines: of the file's days, with an id or a debit's name of it, and set aside ones on the days of ``nets``."""
    taken: Collection[str] = ()  # further ids of recorded lines
    is_whole: bool = False
    """The lines are known to be complete, as an API's list is; otherwise the balances must show it."""
    perhaps_texts: Collection[InstitutionItem] = ()
    """The file's lines that may be a payer's text: ``StatementFile.perhaps_texts``."""
    ids_are_stable: bool = False
    """This account's overlapping files have named each line by the same id, and no two lines by one id."""


class JudgedLine(Struct, frozen=True, kw_only=True):
    item: InstitutionItem  # with the id under which it is or will be recorded
    outcome: Outcome
    known_id: str | None = None  # the recorded line that it repeats


class Judgement(Struct, frozen=True, kw_only=True):
    lines: tuple[JudgedLine, ...]
    """The file's in its order; then recorded lines that it does not list and whose outcome changes."""
    replaced_from: date | None = None
    """The first closed day whose proof the file's balances replace, up to its closing balance."""
    same_ids_count: int = 0
    other_ids_count: int = 0


def judge_lines(lines: Sequence[InstitutionItem], evidence: Evidence) -> Judgement:
    # A line removed by two operators no longer counts: if it is listed again, it is another.
    known = [item for item in evidence.known if item.waits != "struck"]
    matches, unlisted = _match(lines, known, evidence.today)
    reused = _list_reused(lines)
    missing = [item for item in unlisted if not _is_set_aside(item) and evidence.covers(item.day)]
    evidence = structs.replace(evidence, lacking=evidence.lacking.union(item.day for item in missing))
    texts = {number for number, line in enumerate(lines) if line in evidence.perhaps_texts}
    marked, weak = balance_proof.find_marked(lines, evidence, texts)
    outcomes = _judge_one_by_one(lines, matches, missing, marked, {"NONREF", *reused}, evidence)
    aside = [item for item in unlisted if _is_set_aside(item) and item.waits != "no_money"]
    # A line that a whole file covers and does not list is settled; a filtered file settles none.
    covered = [item for item in aside if evidence.covers(item.day) and item.day not in evidence.newer]
    whole_until = date.max if evidence.is_whole else _find_whole(lines, outcomes, evidence)
    others = [
        JudgedLine(item=item, outcome="withdrawn", known_id=item.item_id)
        for item in covered
        if item.day <= whole_until or OUTCOMES[item.waits or "new"].asks == "nobody"
    ]
    covered_ids = {item.item_id for item in covered}
    judged: list[tuple[InstitutionItem, Outcome]] = [*zip(lines, outcomes, strict=True)]
    judged.extend((item, item.waits or "new") for item in aside if item.item_id not in covered_ids)
    moved = balance_proof.list_moved(judged, missing)
    replaced: list[date] = []
    for number, counts in _decide(judged, moved, lines, outcomes, evidence).items():
        item, doubt = judged[number]
        is_open = doubt == "perhaps_balance" and (number in weak if number < len(lines) else balance_proof.is_weak(item))
        outcome: Outcome = "new" if counts else doubt if is_open else _PROVED_NO_MONEY.get(doubt) or doubt
        if counts and doubt == "contradicts" and item.day in evidence.closed:
            replaced.append(item.day)
        if number < len(lines):
            outcomes[number] = outcome
        elif outcome != doubt:
            others.append(JudgedLine(item=item, outcome=outcome, known_id=item.item_id))
    struck, doubtful = balance_proof.find_struck(lines, outcomes, missing, evidence)
    for number in doubtful:
        outcomes[number] = "perhaps_balance"
    others += [JudgedLine(item=item, outcome="perhaps_struck", known_id=item.item_id) for item in struck]
    replaced += [item.day for item in struck] if missing else _list_outdated(lines, outcomes, evidence)
    others += [
        JudgedLine(item=item, outcome="new", known_id=item.item_id)
        for item in matches
        if item is not None and item.waits == "perhaps_struck" and item.day not in evidence.newer
    ]
    doubtful = _list_texts(lines, outcomes, texts, evidence)
    others += [
        JudgedLine(item=match, outcome="new", known_id=match.item_id)
        for number, match in enumerate(matches)
        if match is not None and match.waits == "perhaps_text" and number not in doubtful
    ]
    for number in doubtful:
        outcomes[number] = "perhaps_text" if outcomes[number] == "new" else outcomes[number]
    same_count, other_count = _count_ids(lines, matches, outcomes, {item.item_id for item in evidence.known})
    return Judgement(
        lines=(*_name_lines(lines, matches, outcomes, evidence), *others),
        replaced_from=min(replaced, default=None),
        same_ids_count=same_count,
        other_ids_count=len(reused) + other_count,
    )


def _list_texts(
    lines: Sequence[InstitutionItem], outcomes: Sequence[Outcome], found: set[int], evidence: Evidence
) -> Collection[int]:
    """Find lines that may be a payer's text, unless only all of them together make the file's balances agree."""
    if not found:
        return found
    doubts = [
        (number, balance_proof.Doubt(day=line.day, signed_cents=evidence.find_change(line) or 0, alike=number))
        for number, line in ((number, lines[number]) for number in found)
    ]
    whole_until = _find_whole(lines, outcomes, evidence)
    is_whole = all(line.day <= whole_until for line in lines)
    return set() if is_whole and balance_proof.choose(doubts, sum(doubt.signed_cents for _, doubt in doubts)) else found


def _find_whole(lines: Sequence[InstitutionItem], outcomes: Sequence[Outcome], evidence: Evidence) -> date:
    """Find the last day until which the file is complete: its lines turn the balance before it into its closing balance."""
    opening, closing = balance_proof.find_opening(evidence), evidence.closing
    if closing is None or opening is None:
        return date.min
    counted = [line for line, outcome in zip(lines, outcomes, strict=True) if OUTCOMES[outcome].counts]
    moved = evidence.sum_changes(line for line in counted if line.day <= closing.on)
    return closing.on if moved is not None and opening + moved == closing.cents else date.min


def _list_outdated(lines: Sequence[InstitutionItem], outcomes: Sequence[Outcome], evidence: Evidence) -> list[date]:
    """List days whose recorded balances a whole file replaces, all of whose recorded lines it lists."""
    if evidence.closing is None or _find_whole(lines, outcomes, evidence) != evidence.closing.on:
        return []
    counted = [line for line, outcome in zip(lines, outcomes, strict=True) if OUTCOMES[outcome].counts]
    return balance_proof.list_outdated(counted, evidence)


def _decide(
    judged: Sequence[tuple[InstitutionItem, Outcome]],
    moved: Collection[int],
    lines: Sequence[InstitutionItem],
    outcomes: Sequence[Outcome],
    evidence: Evidence,
) -> dict[int, bool]:
    """Decide which doubtful lines count, by position, among those that the balances decide."""
    nets = Counter(evidence.nets)
    for line, outcome in zip(lines, outcomes, strict=True):
        nets[line.day] += (evidence.find_change(line) or 0) if outcome == "new" else 0
    changes = [evidence.find_change(item) for item, _ in judged]
    found = zip(judged, changes, strict=True)
    unsure = {item.day for (item, one), change in found if change is None and (one == "new" or one in _DOUBTS)}
    balances = structs.replace(evidence, nets=nets, unsure=evidence.unsure | unsure)

    def choose(numbers: Sequence[int]) -> dict[int, bool]:
        doubts = [
            balance_proof.Doubt(
                day=item.day,
                signed_cents=changes[number] or 0,
                alike=(_key(item), one),
                is_contrary=one == "contradicts",
                is_listed=number < len(lines),
            )
            for number, (item, one) in ((number, judged[number]) for number in numbers)
        ]
        return {numbers[place]: counts for place, counts in balance_proof.decide(doubts, balances).items()}

    numbers = [number for number, (_, one) in enumerate(judged) if one in _DOUBTS and number not in moved and changes[number]]
    decided = choose(numbers) if numbers else {}
    # What is called a balance closes no gap: a limit or an invested sum may equal the money of a missing line. After days
    # without a file, so may any balance.
    is_stated = balance_proof.find_opening(evidence) is not None
    able = [number for number in numbers if is_stated or judged[number][1] != "perhaps_balance"]
    able = [number for number in able if not balance_proof.is_called_balance(judged[number][0])]
    return choose(able) if {number for number, counts in decided.items() if counts} - {*able} else decided


def judge_listed(lines: Sequence[InstitutionItem], known: Mapping[str, RecordedItem], today: date) -> tuple[JudgedLine, ...]:
    """Judge lines whose ids are their identity; the first of two under one id stands.

    The other gets an id from its contents, so that it is the same line each time.
    """
    firsts, ids = dict[str, int](), {line.item_id for line in lines}
    others = {_name(one): one for one in known.values() if find_own_name(one) and one.item_id not in ids}
    judged: list[JudgedLine] = []
    for number, line in enumerate(lines):
        before = known.get(line.item_id)
        if before is None and find_own_name(line) and (other := others.pop(_name(line), None)) is not None:
            judged.append(JudgedLine(item=line, outcome="known", known_id=other.item_id))
            continue
        first = firsts.setdefault(line.item_id, number)
        outcome: Outcome
        if not agree(before or line, line) or not agree(lines[first], line):
            digest = hashlib.sha256(msgspec.json.encode(line)).hexdigest()[:8]
            other = structs.replace(line, item_id=f"{line.item_id[:230]}~{digest}")
            is_again = firsts.setdefault(other.item_id, number) != number
            judged.append(JudgedLine(item=other, outcome="known" if is_again else "changed"))
            continue
        if first != number or (before is not None and before.waits != "announced"):
            outcome = "known"
        else:
            listed: Outcome = "perhaps_balance" if balance_proof.is_called_balance(line) else "new"
            outcome = "announced" if line.day > today else listed
        judged.append(JudgedLine(item=line, outcome=outcome, known_id=before and before.item_id))
    return tuple(judged)


def agree(one: InstitutionItem, other: InstitutionItem) -> bool:
    """Whether no fact that both have differs: an API completes its lines."""
    facts = [(getattr(one, name), getattr(other, name)) for name in InstitutionItem.__struct_fields__]
    return all(fact == completed or None in (fact, completed) for fact, completed in facts)


def find_own_name(item: InstitutionItem) -> str | None:
    """Find a debit's own network name: a fee names another Pix, and a return may name only its original."""
    if item.direction == "IN":
        return None
    return item.return_id or (None if item.kind in ("fee", "refund", "reversal") else item.end_to_end_id)


def _name(item: InstitutionItem) -> Hashable | None:
    """Return the identity of a line with a network name, regardless of its day and text."""
    return (item.names, item.direction, item.amount_cents, item.kind) if item.names else None


def _key(item: InstitutionItem) -> Hashable:
    """Return the common key of equal lines of one day."""
    text, party = " ".join(item.text.split()).casefold(), (item.counterparty or "").casefold()
    return item.day, item.direction, item.amount_cents, text, party, item.return_id, item.end_to_end_id


def _match(
    lines: Sequence[InstitutionItem], known: Iterable[RecordedItem], today: date
) -> tuple[list[RecordedItem | None], list[RecordedItem]]:
    """Match lines with recorded lines, each at most once; also return the unmatched recorded lines."""
    matches: list[RecordedItem | None] = [None] * len(lines)
    # Counting ones come first: only lines beyond them are additional.
    free = {item.item_id: item for item in sorted(known, key=_is_set_aside)}
    keys: tuple[Callable[[InstitutionItem], Hashable | None], ...] = (lambda item: (item.item_id, _key(item)), _key, _name)
    for key_of in keys if free else ():
        groups = defaultdict[Hashable, deque[RecordedItem]](deque)
        for item in free.values():
            if (key := key_of(item)) is not None:
                groups[key].append(item)
        for number, line in enumerate(lines):
            if matches[number] is None and (group := groups.get(key_of(line))):
                match = matches[number] = group.popleft()
                del free[match.item_id]
    for number, line in enumerate(lines):
        before = free.get(line.item_id)
        if matches[number] is None and before is not None and _is_cut(line, before, today):
            matches[number] = free.pop(line.item_id)
    _match_forms(matches, free)
    return matches, list(free.values())


def _match_forms(matches: list[RecordedItem | None], free: dict[str, RecordedItem]) -> None:
    """Match lines that are other forms of unmatched counted ones with these: only further such lines are additional."""
    counted = defaultdict[Hashable, deque[RecordedItem]](deque)
    for item in free.values():
        if not _is_set_aside(item):
            counted[item.day, item.signed_cents].append(item)
    for number, match in enumerate(matches):
        if match is None or match.waits not in _FORMS:
            continue
        if forms := counted[match.day, match.signed_cents]:
            matches[number] = counts = forms.popleft()
            del free[counts.item_id]
            free[match.item_id] = match


def _is_cut(line: InstitutionItem, before: RecordedItem, today: date) -> bool:
    """Whether two lines differ only in the end of a text: banks cut texts of an unfinished day."""
    text, text_before = (" ".join(item.text.split()).casefold() for item in (line, before))
    is_longer = to_day(before.recorded_at) <= before.day and text.startswith(text_before)
    is_shorter = today <= line.day and text_before.startswith(text)
    return (is_longer or is_shorter) and _key(structs.replace(line, text=before.text)) == _key(before)


def _is_set_aside(item: RecordedItem) -> bool:
    return item.waits in SET_ASIDE


def _count_ids(
    lines: Sequence[InstitutionItem],
    matches: Sequence[RecordedItem | None],
    outcomes: Sequence[Outcome],
    known_ids: Collection[str],
) -> tuple[int, int]:
    """Count lines repeated under the same id, and those repeated under another or new under one that is taken."""
    judged = list(zip(lines, matches, outcomes, strict=True))
    same = [match.item_id == line.item_id for line, match, _ in judged if match is not None]
    taken = [line for line, match, one in judged if match is None and one == "new" and line.item_id in known_ids]
    return same.count(True), same.count(False) + len(taken)


def _list_reused(lines: Sequence[InstitutionItem]) -> set[str]:
    """List ids that two different lines of a file have, such as a document's number: they are no identity."""
    counts = Counter(line.item_id for line in lines)
    keys = {(line.item_id, _key(line)) for line in lines if counts[line.item_id] > 1}
    return {item_id for item_id, count in Counter(item_id for item_id, _ in keys).items() if count > 1}


def _judge_one_by_one(
    lines: Sequence[InstitutionItem],
    matches: Sequence[RecordedItem | None],
    missing: Sequence[RecordedItem],
    marked: Collection[int],
    reused: Collection[str],
    evidence: Evidence,
) -> list[Outcome]:
    """Judge each line before the balances decide the doubtful ones."""
    missing_sums = {item.signed_cents for item in missing}
    crowded = evidence.closed | evidence.lacking
    named = [item for item in evidence.known if not _is_set_aside(item)] if evidence.ids_are_stable else missing
    # With another day and another amount it is another line: the id is a document's number.
    changed = {(item.item_id, fact) for item in named for fact in (item.day, item.signed_cents)}
    struck = {_key(item) for item in evidence.known if item.waits == "struck"}
    firsts = dict[str, int]()
    outcomes: list[Outcome] = []
    for number, (line, match) in enumerate(zip(lines, matches, strict=True)):
        outcome: Outcome = "new"
        first = firsts.setdefault(line.item_id, number)
        if stands := _find_standing(line, match, struck, evidence):
            outcome = stands
        elif line.day > min(evidence.last_on, evidence.today):
            outcome = "announced"
        elif number in marked:
            outcome = "perhaps_balance"
        elif (match is None or match.waits == "changed") and not changed.isdisjoint(
            ((line.item_id, line.day), (line.item_id, line.signed_cents))
        ):
            outcome = "changed"
        elif first != number and line.item_id not in reused:
            outcome = "same_line" if evidence.ids_are_stable else "perhaps_known"
        elif line.signed_cents in missing_sums:
            outcome = "perhaps_known"
        elif line.day in crowded and (line.day not in evidence.unread or evidence.find_change(line)):
            outcome = "contradicts"
        outcomes.append(outcome)
    return outcomes


def _find_standing(
    line: InstitutionItem, match: RecordedItem | None, struck: Collection[Hashable], evidence: Evidence
) -> Outcome | None:
    """Find the outcome that does not depend on balances: the line is recorded, or two operators have decided."""
    if match is not None and (match.waits == "no_money" or not _is_set_aside(match)):
        return "no_money" if match.waits == "no_money" else "known"
    if _key(line) in struck:
        return "withdrawn" if line.day in evidence.newer else "perhaps_back"
    return None


def _name_lines(
    lines: Sequence[InstitutionItem], matches: Sequence[RecordedItem | None], outcomes: Sequence[Outcome], evidence: Evidence
) -> list[JudgedLine]:
    """Give each line a separate id: the file's if it is free, else one derived from it."""
    taken, numbers = {*evidence.taken, *(item.item_id for item in evidence.known)}, Counter[str]()
    judged: list[JudgedLine] = []
    for line, match, outcome in zip(lines, matches, outcomes, strict=True):
        name = line.item_id
        if match is None:
            stem = f"{line.item_id[:230]}~{line.day:%Y%m%d}"
            while name in taken:
                numbers[stem] += 1
                name = f"{stem}.{numbers[stem] + 1}"
            taken.add(name)
        named = line if match is None else match
        item = named if named.item_id == name or match is not None else structs.replace(line, item_id=name)
        judged.append(JudgedLine(item=item, outcome=outcome, known_id=match and match.item_id))
    return judged
