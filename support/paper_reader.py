"""Keep one account's statement lines in memory, as ``features/institutions/service/statement.py`` keeps them in tables.

The rules are the product's pure functions. Only the bookkeeping between them is repeated here, so that thousands of
months can be judged in a minute. ``tests/features/institutions/service/test_true_months.py`` compares both on the same months.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from datetime import date, datetime, timedelta

from msgspec import Struct, structs

from pixconnect.features.institutions.rules import joining, judging
from pixconnect.features.institutions.rules.balance_proof import find_differing
from pixconnect.features.institutions.rules.day import (
    DayBalances,
    DayCases,
    DaySums,
    ItemGroup,
    JudgedDay,
    find_gaps,
    judge_days,
    sum_groups,
)
from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.rules.joining import BookLine, RecordedItem
from pixconnect.features.institutions.rules.judging import Evidence, JudgedLine, Judgement
from pixconnect.features.institutions.rules.unmatched import OUTCOMES, LeftLines, OpenAmounts, hold_sums, judge_left
from pixconnect.features.institutions.service.statement_account import read_statement_file
from pixconnect.features.institutions.statement_files.statement_file import ItemSource, StatementFile, find_final_balance
from pixconnect.platform.base.clock import to_day
from support.bank_simulator import FIRST_ON, OPENING_CENTS, Movement, at_hour
from support.true_months import Books, Effect, Question, Step

_DAY = timedelta(days=1)
_DOUBTS = ("perhaps_balance", "perhaps_struck")


class _Day(Struct, kw_only=True):
    source: ItemSource
    opening_cents: int | None = None
    closing_cents: int | None = None
    read_at: datetime | None = None


class PaperReader:
    """The account's house, lines and days; the books begin in the evening before the first day."""

    def __init__(self, sum_forms: Collection[str] = ()) -> None:
        self._sum_forms = sum_forms  # texts of sums that a person has joined
        self._parts = set[joining.LineKey]()
        self._items: dict[str, RecordedItem] = {}
        self._days: dict[date, _Day] = {}
        self._judged: dict[date, JudgedDay] = {}
        self._ours: dict[joining.LineKey, BookLine] = {}
        self._ids_counts = Counter[str]()
        self._first_read_at = dict[bytes, datetime]()

    def take(self, step: Step) -> None:
        if step.learned is not None:
            self._learn(step.learned)
        if step.file is not None:
            read_at = self._first_read_at.setdefault(step.file, step.at)
            self._record(read_statement_file(step.file), step.at, read_at)
        self._settle(step.at)
        self._judged = self._judge_days(step.at)

    def read_books(self, now: datetime) -> Books:
        return Books(
            booked=Counter((item.day, item.signed_cents) for item in self._items.values() if item.joined_kind == "movement"),
            questions=self._list_questions(now),
            proven={
                day: judged.closing_cents
                for day, judged in self._judged.items()
                if self._is_closed(day) and judged.closing_cents is not None
            },
        )

    def _is_closed(self, day: date) -> bool:
        return day in self._judged and self._judged[day].state in ("closed", "closed_with_cases")

    def _list_questions(self, now: datetime) -> list[Question]:
        """The open questions: one for each finished day about which a line, a balance, one of our lines or a file is a case."""
        may_book, may_strike = defaultdict[date, list[Effect]](list), defaultdict[date, list[Effect]](list)
        for item in self._items.values():
            if item.waits is not None and OUTCOMES[item.waits].asks == "person":
                effects = may_strike if item.waits == "perhaps_struck" else may_book
                effects[item.day].append((item.day, item.signed_cents))
        differing = {day for day, judged in self._judged.items() if judged.difference_cents}
        read_whole = {day for day, judged in self._judged.items() if judged.was_read_whole}
        alone = {line.day for line in self._list_unmatched() if line.day in read_whole}
        asked = sorted(day for day in {*may_book, *may_strike, *differing, *alone} if day < to_day(now))
        gaps = find_gaps(sorted(self._judged.values(), key=lambda one: one.day), asked)
        missing = [gap.first_on + _DAY * number for gap in gaps for number in range((gap.last_on - gap.first_on).days + 1)]
        return [
            *(Question(about=day, may_book=may_book[day], may_strike=may_strike[day]) for day in asked),
            *(Question(about=day) for day in missing),
        ]

    def _learn(self, pix: Movement) -> None:
        key: joining.LineKey = ("transfer", str(pix.serial))
        self._ours[key] = BookLine(
            key=key,
            holder_id=1,
            direction="IN" if pix.cents > 0 else "OUT",
            amount_cents=abs(pix.cents),
            day=pix.day if pix.settled_at is None else to_day(pix.settled_at),
            settled_at=pix.settled_at,
            names=(pix.name,),
            state="settled",
        )

    def _record(self, file: StatementFile, now: datetime, read_at: datetime) -> None:
        spoken = [file.first_on + _DAY * number for number in range((file.last_on - file.first_on).days + 1)]
        others = {day for day, told in self._days.items() if told.source != file.format}
        lines = [item for item in file.items if item.day not in others]
        closed = {day for day in self._days if self._is_closed(day)}
        dated = file.date(read_at)
        evidence = self._read_evidence(file, lines, dated)
        differing = find_differing(file.items, others, evidence.nets)
        judgement = judging.judge_lines(lines, structs.replace(evidence, elsewhere=frozenset(others), lacking=differing))
        self._ids_counts += Counter(same=judgement.same_ids_count, other=judgement.other_ids_count)
        self._keep(judgement.lines, file.format, dated[0])
        self._tell(file, judgement, ({*spoken} - others, len(lines), closed), dated[0])

    def _read_evidence(self, file: StatementFile, lines: Sequence[InstitutionItem], dated: tuple[datetime, date]) -> Evidence:
        days = [file.first_on, file.last_on, *(line.day for line in lines)]
        first_on, last_on = min(days), max(days)
        closed = frozenset(day for day in self._days if self._is_closed(day))
        agreed = {day for day in self._days if self._judged[day].state != "open"}
        ends = {day - _DAY: told.opening_cents for day, told in self._days.items() if told.opening_cents is not None}
        for day, told in self._days.items():
            if told.closing_cents is not None:
                ends[day] = told.closing_cents
        since = max((day for day in ends if day < first_on), default=None)
        if since is None:
            since = FIRST_ON - _DAY
            agreed.add(since)
            ends[since] = OPENING_CENTS
        later = sorted(day for day in ends if day > last_on)
        until = next((day for day in later if day in closed), later[0] if later else last_on)
        ids = {line.item_id for line in lines}
        nets = Counter[date]()
        for item in self._items.values():
            if since <= item.day <= until and _counts(item):
                nets[item.day] += item.signed_cents
        known = [
            item
            for item in self._items.values()
            if item.item_id in ids
            or (item.source == file.format and first_on <= item.day <= last_on)
            or (item.source == file.format and since <= item.day <= until and not _counts(item) and not item.joined_id)
        ]
        return Evidence(
            first_on=file.first_on,
            last_on=file.last_on,
            opening_cents=None if file.opening is None else file.opening.cents,
            closing=file.closing,
            ends={day: cents for day, cents in ends.items() if since <= day <= until},
            closed=closed,
            agreed=frozenset(agreed),
            newer=frozenset(day for day, told in self._days.items() if told.read_at is not None and told.read_at > dated[0]),
            nets=nets,
            today=dated[1],
            known=known,
            ids_are_stable=self._ids_counts["same"] > 0 and self._ids_counts["other"] == 0,
        )

    def _keep(self, lines: Sequence[JudgedLine], source: ItemSource, now: datetime) -> None:
        for line in lines:
            if line.outcome == "known":
                continue
            waits = None if line.outcome == "new" else line.outcome
            if line.known_id is None:
                self._items[line.item.item_id] = RecordedItem(
                    **structs.asdict(line.item), institution_id=1, source=source, recorded_at=now, waits=waits
                )
            else:
                self._items[line.known_id] = structs.replace(self._items[line.known_id], waits=waits)

    def _tell(
        self, file: StatementFile, judgement: Judgement, given: tuple[set[date], int, set[date]], as_of: datetime
    ) -> None:
        closing = find_final_balance(file, as_of)
        spoken, lines_count, closed = given
        of_file = judgement.lines[:lines_count]
        if judgement.replaced_from is not None and file.closing is not None:
            for day, told in self._days.items():
                is_newer = told.read_at is not None and told.read_at > as_of
                if judgement.replaced_from <= day <= file.closing.on and not is_newer:
                    told.closing_cents = None if day < file.closing.on else told.closing_cents
                    told.opening_cents = None if day > judgement.replaced_from else told.opening_cents
        is_corrected = any(line.outcome == "perhaps_struck" for line in judgement.lines)
        contradicts = any(line.outcome == "contradicts" for line in of_file)
        kept = closed if contradicts and not is_corrected else set[date]()
        for day in sorted({*spoken, *(line.item.day for line in of_file if line.outcome == "new")} - kept):
            if day not in self._days:
                self._judged.pop(day, None)  # it was judged as empty
            told = self._days.setdefault(day, _Day(source=file.format))
            is_older = day in spoken and told.read_at is not None and as_of < told.read_at
            if file.opening is not None and day == file.first_on:
                told.opening_cents = _choose(file.opening.cents, told.opening_cents, is_older, day in closed)
            if closing is not None and day == closing.on:
                told.closing_cents = _choose(closing.cents, told.closing_cents, is_older, day in closed)
            if day in spoken and not is_older:
                told.read_at = as_of

    def _settle(self, now: datetime) -> None:
        """Named lines are joined first, then similar lines; the rest is posted or waits."""
        guessed = (item for item in self._items.values() if item.joined_by != "name")
        told: dict[tuple[object, object], RecordedItem] = {(one.joined_kind, one.joined_id): one for one in guessed}
        alike = {key: told[key] for key in self._ours if key in told}
        ours = [self._ours[key] for key in alike]
        for item in [alike[key] for key in joining.find_claimed(self._list_alone(), ours, alike)]:
            self._items[item.item_id] = structs.replace(item, joined_kind=None, joined_id=None, joined_by=None)
        looks = joining.list_looks(self._list_alone())
        for item in [*self._items.values()]:
            is_bare = item.joined_by in ("amount", "alike", "near") and item.kind not in joining.PIX
            if is_bare and (item.day, item.direction, item.amount_cents) in looks:
                self._items[item.item_id] = structs.replace(item, joined_kind=None, joined_id=None, joined_by=None)
        proved = {day for day in self._days if self._is_closed(day)}
        for take in ("name", "any"):
            alone = self._list_alone()
            joined = joining.join_items(alone, self._list_unmatched(), proved=proved, sum_forms=self._sum_forms)
            for join in joined.joins:
                if take == "any" or join.by == "name":
                    self._join(join.item_id, join.key, join.by)
                    self._parts |= {*join.parts}
        left = self._list_unmatched()
        known = OpenAmounts(
            unnamed_cents=frozenset(),
            our_names=frozenset(name for line in self._ours.values() for name in line.names),
            begins_at=at_hour(FIRST_ON, -1),
            begins_on=FIRST_ON - _DAY,
            today=to_day(now),
            read_until=now,
        )
        verdicts = [judge_left(item, LeftLines(left), known) for item in self._list_alone()]
        for one in hold_sums(verdicts, joining.sum_lone(left), self._sum_forms):
            if one.waits is None:
                self._join(one.item.item_id, ("movement", one.item.item_id), "name")
            else:
                self._items[one.item.item_id] = structs.replace(self._items[one.item.item_id], waits=one.waits)

    def _list_unmatched(self) -> list[BookLine]:
        joined = {(item.joined_kind, item.joined_id) for item in self._items.values()}
        return [line for key, line in self._ours.items() if key not in joined | self._parts]

    def _list_alone(self) -> list[RecordedItem]:
        return [
            item for item in self._items.values() if item.joined_id is None and _counts(item) and item.waits != "perhaps_struck"
        ]

    def _join(self, item_id: str, key: joining.LineKey, by: joining.JoinedBy) -> None:
        self._items[item_id] = structs.replace(
            self._items[item_id], joined_kind=key[0], joined_id=str(key[1]), joined_by=by, waits=None
        )

    def _judge_days(self, now: datetime) -> dict[date, JudgedDay]:
        items = defaultdict[date, list[RecordedItem]](list)
        for item in self._items.values():
            if _counts(item):
                items[item.day].append(item)
        sums: dict[date, DaySums] = {day: sum_groups(list(map(_group, of_day))) for day, of_day in items.items()}
        doubts = Counter(item.day for item in self._items.values() if item.waits in _DOUBTS)
        changed = Counter(item.day for item in self._items.values() if item.waits == "changed")
        cases = {day: DayCases(items_count=changed[day], doubts_count=doubts[day]) for day in {*changed, *doubts}}
        told = [
            DayBalances(day=day, opening_cents=one.opening_cents, closing_cents=one.closing_cents, read_at=one.read_at)
            for day, one in sorted(self._days.items())
        ]
        return {one.day: one for one in judge_days(told, sums, cases, now)}


def _choose(cents: int, before_cents: int | None, is_older: bool, is_closed: bool) -> int | None:
    return before_cents if is_older and (is_closed or before_cents is not None) else cents


def _counts(item: RecordedItem) -> bool:
    return item.waits is None or OUTCOMES[item.waits].counts


def _group(item: RecordedItem) -> ItemGroup:
    direction, cents = item.direction, item.amount_cents
    return ItemGroup(day=item.day, direction=direction, kind=item.kind, is_return=False, amount_cents=cents, items_count=1)
