"""The meaning of each line of a file, given the recorded lines and balances: pure, without a database."""

import time
from collections import Counter
from collections.abc import Collection
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from pixconnect.features.institutions.rules.balance_proof import find_differing
from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.rules.joining import RecordedItem, Waiting
from pixconnect.features.institutions.rules.judging import Evidence, Judgement, judge_lines, judge_listed
from pixconnect.features.institutions.rules.unmatched import OUTCOMES, SET_ASIDE
from pixconnect.features.institutions.statement_files.statement_file import StatedBalance

GUIDE: Final = Path(__file__).parents[4] / "docs" / "guides" / "reconcile.md"
JUNE_ENDS: Final = date(2026, 6, 30)


def july(day: int) -> date:
    return date(2026, 7, day)


def a_line(item_id: str, cents: int, text: str = "TARIFA", day: int = 1, **changes: Any) -> InstitutionItem:
    fields: dict[str, Any] = dict(
        settled_at=None, direction="IN" if cents > 0 else "OUT", amount_cents=abs(cents), kind="other", text=text
    )
    return InstitutionItem(item_id=item_id, day=july(day), **fields | changes)


class Recorded:
    """The records of an account whose books begin with 100.00 on the thirtieth of June."""

    def __init__(self, before: int = 10_000) -> None:
        self.items: dict[str, RecordedItem] = {}
        self.ends = {JUNE_ENDS: before}
        self.closed = self.unread = frozenset[date]()
        self.is_stable = False
        self.at = datetime(2026, 7, 20, 15, tzinfo=UTC)  # when files are made
        self.newer = frozenset[date]()
        self.has_investments = False

    def read(
        self,
        *lines: InstitutionItem,
        days: tuple[int, int] = (1, 1),
        opening: int | None = None,
        closing: int | None = None,
        perhaps_texts: Collection[InstitutionItem] = (),
    ) -> list[str]:
        """Judge and record a file, and return the meaning of each line."""
        nets = Counter[date]()
        for item in self.items.values():
            nets[item.day] += 0 if item.waits in SET_ASIDE else item.signed_cents
        first_on, last_on = map(july, days)
        evidence = Evidence(
            first_on=first_on,
            last_on=last_on,
            today=self.at.date(),
            newer=self.newer,
            opening_cents=opening,
            closing=None if closing is None else StatedBalance(cents=closing, on=last_on),
            ends=self.ends,
            agreed=self.closed | {JUNE_ENDS},
            closed=self.closed,
            unread=self.unread,
            nets=nets,
            known=tuple(self.items.values()),
            ids_are_stable=self.is_stable,
            perhaps_texts=perhaps_texts,
            has_investments=self.has_investments,
        )
        judgement = judge_lines(lines, evidence)
        self._keep(judgement)
        self.other_ids_count = judgement.other_ids_count
        if closing is not None:
            self.ends = {**self.ends, last_on: closing}
        return [line.outcome for line in judgement.lines[: len(lines)]]

    def _keep(self, judgement: Judgement) -> None:
        for line in judgement.lines:
            if line.outcome == "known":
                continue
            waits: Any = None if line.outcome == "new" else line.outcome
            if line.known_id is not None:
                self.items[line.known_id] = structs.replace(self.items[line.known_id], waits=waits)
                continue
            assert line.item.item_id not in self.items
            fields = structs.asdict(line.item)
            self.items[line.item.item_id] = RecordedItem(
                **fields, institution_id=1, source="ofx", recorded_at=self.at, waits=waits
            )

    @property
    def counted(self) -> list[int]:
        return sorted(item.signed_cents for item in self.items.values() if item.waits not in SET_ASIDE)


FEE: Final = a_line("F1", -100)
TOTAL: Final = a_line("B1", 9_700, "RESUMO DO DIA")
SECOND: Final = a_line("F2", -200, "BOLETO")


@pytest.mark.parametrize(
    ("lines", "closing", "outcomes"),
    [
        # Without a word, in a place where the sum of no lines beside it is the balance.
        ([FEE, TOTAL, SECOND], 9_700, ["new", "perhaps_balance", "new"]),
        # A line is missing before it, or after it.
        ([FEE, TOTAL], 9_700, ["new", "perhaps_balance"]),
        ([SECOND, structs.replace(TOTAL, text="SALDO", counterparty="ANA"), FEE], 9_600, ["new", "perhaps_balance", "new"]),
        ([FEE, SECOND, TOTAL], 9_600, ["new", "new", "perhaps_balance"]),
        # Nothing contradicts the same lines, or they lack another line.
        ([FEE, TOTAL], 19_600, ["new", "new"]),
        ([FEE, TOTAL], 19_500, ["new", "new"]),
        ([FEE, a_line("T1", 9_700, "TED", kind="wire")], 9_700, ["new", "new"]),
    ],
)
def test_a_balance_without_a_word_moves_nothing_where_lines_are_missing(
    lines: list[InstitutionItem], closing: int, outcomes: list[str]
) -> None:
    assert Recorded().read(*lines, closing=closing) == outcomes


@pytest.mark.parametrize("before", [10_000, 100])  # with 1.00 the balance may be the only money since
def test_a_balance_after_days_without_a_file_may_be_a_line(before: int) -> None:
    lines = a_line("F1", -100, day=3), a_line("T1", 500, "SD DIA", 3)
    assert Recorded(before).read(*lines, days=(3, 3), closing=500) == ["new", "perhaps_balance"]


def test_a_line_that_only_a_missing_line_made_doubtful_counts_with_the_whole_file() -> None:
    recorded, back = Recorded(), a_line("F3", 100, "ESTORNO")
    assert recorded.read(FEE, SECOND, closing=9_800) == ["perhaps_balance", "new"]
    assert recorded.read(FEE, back, SECOND, closing=9_800) == ["new", "new", "known"]
    assert recorded.counted == [-200, -100, 100]


def test_the_guide_has_each_outcome() -> None:
    assert {*get_args(Waiting), "new", "known"} == {*OUTCOMES}
    guide = GUIDE.read_text()
    assert [name for name in OUTCOMES if f"`{name}`" not in guide] == []


@pytest.mark.parametrize(
    ("lines", "closing", "outcomes"),
    [
        ([FEE, a_line("B1", 9_900, "SALDO DO DIA")], 9_900, ["new", "balance_line"]),
        ([a_line("B1", 9_900, "SALDO DO DIA"), FEE], 9_900, ["balance_line", "new"]),
        ([FEE, a_line("B1", 9_900, "S A L D O")], 9_900, ["new", "balance_line"]),
        ([FEE, a_line("B1", 9_900, "DISPONIVEL")], 9_900, ["new", "balance_line"]),
        # Sums that disagree, agree in two ways, or have no balance to compare with.
        ([FEE, a_line("B1", 9_900, "SALDO DO DIA")], 9_800, ["new", "perhaps_balance"]),
        ([FEE, a_line("B1", 9_900, "SALDO DO DIA")], None, ["new", "perhaps_balance"]),
        ([a_line("B1", 500, "SALDO A"), a_line("B2", 500, "SALDO B")], 10_500, ["perhaps_balance"] * 2),
        # The word alone proves nothing, and a line with a name is no balance.
        ([a_line("R1", 500, "RESGATE SALDO")], 10_500, ["new"]),
        ([a_line("R1", 500, "RESGATE SALDO")], 10_000, ["perhaps_balance"]),
        *(
            ([a_line("B1", 20_000, words)], 10_000, ["balance_line"])
            for words in ("S A L D O", "SALDO FINAL DISPONIVEL", "Saldo Anterior", "SALDO BLOQUEADO")
        ),
        ([a_line("P1", 500, "PIX RECEBIDO saldo", kind="pix")], None, ["new"]),
        ([a_line("P1", 500, "SALDO", tax_id="52998224725")], None, ["new"]),
        ([a_line("P1", 500, "SALDO", counterparty="ANA")], None, ["new"]),
        # Ids of several lines, and one line under one id.
        ([a_line("7", -100), a_line("7", -200), a_line("7", 300)], None, ["new"] * 3),
        ([a_line("NONREF", -100), a_line("NONREF", -100)], None, ["new"] * 2),
        ([a_line("F1", -100), a_line("F2", -100)], None, ["new"] * 2),
        ([FEE, FEE], None, ["new", "perhaps_known"]),
        ([FEE, FEE], 9_900, ["new", "same_line"]),
        ([FEE, FEE], 9_800, ["new", "new"]),
        # Future lines, by the file or by the clock.
        ([a_line("S1", -100, day=2)], None, ["announced"]),
    ],
)
def test_what_a_line_of_a_first_file_is(lines: list[InstitutionItem], closing: int | None, outcomes: list[str]) -> None:
    assert Recorded().read(*lines, closing=closing) == outcomes


@pytest.mark.parametrize(
    ("closed", "known", "lines", "file", "outcomes"),
    [
        ((), [FEE], [a_line("X9", -100)], {}, ["known"]),
        ((), [FEE], [FEE, a_line("X9", -100)], {}, ["known", "new"]),
        ((), [FEE], [a_line("X8", -100), a_line("X9", -100)], {}, ["known", "new"]),
        ((), [FEE], [a_line("F1", -100, "TARIFA JULHO")], {}, ["changed"]),
        ((), [FEE], [a_line("F1", -200)], {}, ["changed"]),
        ((), [FEE], [FEE, a_line("F1", -200)], {}, ["known", "new"]),
        ((), [FEE], [a_line("X9", -100, "TARIFA JULHO")], {}, ["perhaps_known"]),
        ((), [FEE], [a_line("X9", -100, day=2)], dict(days=(1, 2)), ["perhaps_known"]),
        # The bank may have dated the line otherwise, or removed it and added another.
        ((), [FEE], [a_line("X9", -100, day=2)], dict(days=(1, 2), closing=9_900), ["perhaps_known"]),
        ((), [FEE], [a_line("X9", -100, day=2)], dict(days=(2, 2)), ["new"]),
        ((), [FEE], [a_line("F1", -100, day=2)], dict(days=(2, 2)), ["new"]),
        ((), [FEE], [a_line("C1", 300)], {}, ["contradicts"]),
        # The bank may have removed the missing line: then the sum agrees by coincidence.
        ((), [FEE], [a_line("C1", 300)], dict(closing=10_200), ["contradicts"]),
        ((), [FEE], [a_line("B1", 100, "SALDO")], dict(closing=10_000), ["perhaps_balance"]),
        ((1,), [FEE], [FEE, a_line("L1", -500)], {}, ["known", "contradicts"]),
        ((1,), [FEE], [FEE, a_line("L1", -500)], dict(closing=9_400), ["known", "new"]),
        ((1,), [FEE], [FEE, a_line("L1", -500)], dict(closing=9_500), ["known", "contradicts"]),
        # Movements that sum to zero contradict no balance, such as an investment and its return.
        ((1,), [FEE], [FEE, a_line("L1", -500), a_line("L2", 500)], dict(closing=9_900), ["known", "new", "new"]),
        ((1,), [FEE], [FEE, SECOND, a_line("B1", 9_700, "SALDO")], dict(closing=9_700), ["known", "new", "balance_line"]),
        ((1,), [FEE], [FEE, a_line("L1", -500)], dict(opening=9_999, closing=9_399), ["known", "new"]),
    ],
)
def test_what_a_line_is_beside_what_is_recorded(
    closed: tuple[int, ...], known: list[InstitutionItem], lines: list[InstitutionItem], file: Any, outcomes: list[str]
) -> None:
    recorded = Recorded()
    recorded.read(*known)
    recorded.closed = frozenset(map(july, closed))
    assert recorded.read(*lines, **file) == outcomes


def test_ids_that_overlapping_files_have_shown_to_be_stable_set_lines_aside() -> None:
    recorded = Recorded()
    recorded.read(FEE)
    recorded.is_stable = True
    assert recorded.read(a_line("F1", -100, day=2), days=(2, 2)) == ["changed"]
    assert recorded.read(a_line("F2", -100, day=2), a_line("F2", -100, day=2), days=(2, 2)) == ["new", "same_line"]
    # Of another day and amount it is a document's number, which shows that ids are not stable.
    assert recorded.read(a_line("F1", -300, day=3), days=(3, 3)) == ["new"]
    assert recorded.other_ids_count == 1


def test_another_form_of_a_line_stands_for_it_and_a_further_one_is_another_line() -> None:
    recorded = Recorded()
    recorded.read(FEE)
    form = a_line("X9", -100, "TARIFA JULHO")
    assert recorded.read(form, closing=9_900) == ["same_line"]
    recorded.closed = frozenset({july(1)})
    assert recorded.read(form, a_line("X8", -100, "TARIFA JULHO"), closing=9_800) == ["known", "new"]
    assert recorded.counted == [-100, -100]


def test_what_is_announced_is_withdrawn_or_becomes_money_with_the_file_of_its_day() -> None:
    recorded = Recorded()
    assert recorded.read(a_line("S1", -100, day=2), a_line("S2", -300, day=2)) == ["announced"] * 2
    assert recorded.read(a_line("S1", -100, day=2), a_line("P9", -300, "PAGO", day=2), days=(1, 2)) == ["new"] * 2
    assert (recorded.counted, recorded.items["S2"].waits) == ([-300, -100], "withdrawn")


def test_a_balance_that_never_agreed_makes_no_line_money() -> None:
    # The second day's balance has a later, backdated line of the first day that its file lacks.
    recorded = Recorded()
    recorded.read(FEE, closing=9_900)
    recorded.closed = frozenset({july(1)})
    line = a_line("R1", -200, "APLICACAO SALDO", day=2)
    assert recorded.read(line, days=(2, 2), closing=9_600) == ["perhaps_balance"]
    assert recorded.read(a_line("R2", -100, "TARIFA", day=3), days=(3, 3), closing=9_400) == ["new"]
    assert recorded.items["R1"].waits == "perhaps_balance"


@pytest.mark.parametrize(
    ("closed", "opening", "waits"), [((), None, "same_line"), ((1,), None, "same_line"), ((), 9_800, "perhaps_known")]
)
def test_a_file_makes_no_line_money_that_it_does_not_list(closed: tuple[int, ...], opening: int | None, waits: str) -> None:
    """Its balances may include another change of an earlier day: here the bank replaced the fee by one of 200."""
    recorded = Recorded()
    recorded.read(FEE)
    recorded.read(a_line("X9", -100, "TARIFA JULHO"))
    recorded.closed = frozenset(map(july, closed))
    recorded.ends[july(2)] = 9_900
    recorded.read(days=(2, 3), opening=opening, closing=9_800)
    assert (recorded.counted, recorded.items["X9"].waits) == ([-100], waits)


@pytest.mark.parametrize(("newest_cents", "amounts"), [(9_900, []), (10_000, []), (10_200, [200]), (10_300, [200, -200, 300])])
def test_an_older_file_strikes_a_line_of_a_newer_one_only_with_its_balance(newest_cents: int, amounts: list[int]) -> None:
    recorded = Recorded()
    recorded.read(FEE, closing=9_900)
    recorded.read(days=(2, 2), closing=9_900)
    recorded.newer, recorded.ends[july(1)] = frozenset({july(1)}), newest_cents
    redeemed = [a_line(f"R{cents}", cents, "RESGATE SALDO") for cents in amounts]
    recorded.read(*redeemed, days=(1, 2), opening=10_000, closing=max(newest_cents, 10_000))
    assert recorded.items["F1"].waits == (None if newest_cents == 9_900 else "perhaps_struck")


def test_a_day_of_another_format_proves_nothing_if_its_sums_differ() -> None:
    lines = [FEE, a_line("B1", 9_900, "SALDO DO DIA"), a_line("F2", -200, day=2)]
    assert find_differing(lines, [july(1), july(2)], {july(1): -100}) == {july(2)}


APPLIED: Final = a_line("A1", -9_900, "APLICACAO AUTOMATICA")


@pytest.mark.parametrize(
    ("lines", "closing", "outcomes"),
    [
        ([APPLIED, a_line("S1", 9_900, "SALDO APLICADO")], 10_000, ["new", "balance_line"]),
        ([APPLIED, a_line("S1", 100, "SALDO EM CONTA")], 10_000, ["new", "balance_line"]),
        # A line is missing: the invested sum does not take its place.
        ([APPLIED, a_line("S1", 9_900, "SALDO APLICADO")], 19_900, ["new", "perhaps_balance"]),
        ([APPLIED, FEE, a_line("X1", 9_900, "SALDO APLICADO")], 9_900, ["new", "new", "balance_line"]),
        # A running balance of the account alone.
        ([APPLIED, a_line("S1", 100, "EM CONTA")], 10_000, ["new", "balance_line"]),
        # A redemption of the running balance is none.
        ([a_line("R1", 10_000, "RESGATE AUTOMATICO")], 10_000, ["new"]),
        # How much of a redemption is yield, is unknown before it is posted.
        ([a_line("R1", 9_905, "RESGATE AUTOMATICO"), a_line("S1", 5, "SALDO")], 10_005, ["new", "perhaps_balance"]),
        ([a_line("R1", 9_905, "RESGATE AUTOMATICO"), a_line("S1", 5, "SALDO")], 10_000, ["new", "perhaps_balance"]),
    ],
)
def test_lines_of_own_investments_leave_balances_with_investments_unchanged(
    lines: list[InstitutionItem], closing: int, outcomes: list[str]
) -> None:
    recorded = Recorded()
    recorded.has_investments = True
    assert recorded.read(*lines, opening=10_000, closing=closing) == outcomes
    assert find_differing([APPLIED], [july(1)], {}, has_investments=True) == set()
    assert find_differing([APPLIED, lines[0]], [july(1)], {}) == {july(1)}
    recorded.closed = recorded.unread = frozenset({july(2)})
    later = a_line("A2", -5, "APLICACAO AUTOMATICA", 2), a_line("F2", -5, day=2)
    assert recorded.read(*later, days=(2, 2)) == ["new", "contradicts"]


def test_of_too_many_choices_none_is_made() -> None:
    amounts = [7**number % 999_983 for number in range(20, 52)]
    lines = [a_line(f"B{number}", cents, "SALDO") for number, cents in enumerate(amounts)]
    assert Recorded().read(*lines, closing=10_000 + sum(amounts[:16])) == ["perhaps_balance"] * 32


def test_lines_of_an_api_are_known_by_their_ids() -> None:
    recorded = Recorded()
    recorded.read(FEE, a_line("S1", -5, day=2))
    lines = [FEE, a_line("F1", -200), a_line("N1", 1), a_line("N1", 1), a_line("N1", 2), a_line("S1", -5, day=2)]
    lines.insert(5, lines[4])
    judged = judge_listed([*lines, a_line("Z1", 1, day=3), a_line("B1", 9, "SALDO DO DIA")], recorded.items, july(2))
    assert " ".join(line.outcome for line in judged) == "known changed new known changed known new announced perhaps_balance"
    # What the API tells later of a line under its id changes nothing of it; another word does.
    told = [structs.replace(FEE, **one) for one in (dict(counterparty="BANCO"), dict(end_to_end_id="E0"), dict(text="TED"))]
    assert [judge_listed([one], recorded.items, july(2))[0].outcome for one in told] == ["known", "known", "changed"]
    assert [line.outcome for line in judge_listed(told[:2], {}, july(2))] == ["new", "known"]
    named: dict[str, Any] = dict(kind="pix", end_to_end_id="E1")
    recorded.read(a_line("P1", -300, **named))
    again = [a_line("P2", -300, day=2, **named), a_line("P3", -300, day=2, **named), a_line("P4", -400, day=2, **named)]
    assert [line.outcome for line in judge_listed(again, recorded.items, july(2))] == ["known", "new", "new"]


_MONTH = st.lists(
    st.tuples(st.integers(1, 5), st.sampled_from([-10, -20, 30]), st.sampled_from(["TARIFA", "TED"])), max_size=12
)


@given(_MONTH, st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), max_size=6), st.randoms())
def test_overlapping_exports_under_any_ids_hold_each_line_once(
    month: list[tuple[int, int, str]], spans: list[tuple[int, int]], chance: Any
) -> None:
    recorded = Recorded()
    for span in [*map(sorted, spans), (1, 5)]:
        days = span[0], span[1]
        lines = [a_line(str(chance.random()), cents, text, day) for day, cents, text in month if days[0] <= day <= days[1]]
        chance.shuffle(lines)
        before = 10_000 + sum(cents for day, cents, _ in month if day < days[0])
        recorded.read(*lines, days=days, opening=before, closing=before + sum(line.signed_cents for line in lines))
    assert recorded.counted == sorted(cents for _, cents, _ in month)


def test_a_text_that_was_cut_while_its_day_went_on_is_completed_by_a_later_file() -> None:
    recorded = Recorded()
    cut, whole = a_line("L1", 100, "TED"), [a_line("L1", 100, "TED RECEBIDA"), a_line("L2", 100, "TED RECEBIDA")]
    noon, morning = datetime(2026, 7, 1, 15, tzinfo=UTC), datetime(2026, 7, 2, 11, tzinfo=UTC)
    for at, lines, outcomes in [
        (noon, [cut], ["new"]),
        (morning, whole, ["known", "new"]),
        (noon, [cut], ["known"]),
        (morning, whole, ["known", "known"]),
        (morning, [a_line("L1", 100, "TARIFA")], ["changed"]),
    ]:
        recorded.at = at
        assert recorded.read(*lines) == outcomes


def test_what_a_file_shows_to_be_a_balance_closes_no_gap() -> None:
    recorded = Recorded()
    sweeps = [a_line("A1", 10_001, "RESGATE", 2), a_line("A2", -10_001, "APLICACAO", 2)]
    recorded.read(a_line("A0", -10_000, "APLICACAO"), closing=0)
    recorded.read(*sweeps, days=(2, 2), closing=0)
    recorded.closed = frozenset(map(july, (1, 2)))
    # On the third the bank adds a fee to the first: the file only shows it in its balances.
    balance, back = a_line("B2", -100, "SALDO DO DIA", 2), a_line("A3", 100, "RESGATE", 3)
    assert recorded.read(*sweeps, balance, back, days=(2, 3), closing=0) == ["known", "known", "perhaps_balance", "new"]
    lines = [a_line("A0", -10_000, "APLICACAO"), FEE, *sweeps, balance, back]
    assert recorded.read(*lines, days=(1, 3), closing=0)[1:2] == ["new"]
    assert recorded.items["B2"].waits == "balance_line"


def test_a_line_of_an_older_file_is_not_taken_back_by_a_newer_one_that_was_read_before() -> None:
    recorded = Recorded()
    recorded.read(FEE, a_line("B1", 500, "SALDO A"), closing=None)
    assert recorded.items["B1"].waits == "perhaps_balance"
    recorded.newer = frozenset({july(1)})
    recorded.read(FEE)
    assert recorded.items["B1"].waits == "perhaps_balance"
    recorded.newer = frozenset()
    recorded.read(FEE, closing=9_900)
    assert recorded.items["B1"].waits == "withdrawn"


def test_a_longer_older_file_replaces_no_proof_of_a_newer_file() -> None:
    recorded, second = Recorded(), a_line("F2", -200, day=2)
    recorded.read(FEE, closing=9_900)
    recorded.closed = recorded.newer = frozenset({july(1)})
    struck = a_line("X1", -500, "BOLETO")
    assert recorded.read(FEE, struck, second, days=(1, 2), closing=9_200) == ["known", "contradicts", "new"]


@pytest.mark.parametrize(("opening", "outcome"), [(9_900, "new"), (9_800, "contradicts")])
def test_a_closed_day_without_a_balance_of_its_own_is_followed_by_what_its_lines_leave(opening: int, outcome: str) -> None:
    """The bank dated lines back, and the file that proved it closed both days by its last balance."""
    recorded, second = Recorded(), a_line("F2", -200, day=2)
    recorded.read(FEE, second, days=(1, 2), closing=9_700)
    recorded.closed, recorded.ends = frozenset(map(july, (1, 2))), {JUNE_ENDS: 10_000, july(2): 9_700}
    late = a_line("L2", -500, "BOLETO", day=2)
    assert recorded.read(second, late, days=(2, 2), opening=opening, closing=opening - 700) == ["known", outcome]


@pytest.mark.parametrize(
    ("lines", "closing", "waits"),
    [
        ([FEE, a_line("T1", 300, "TED")], 10_200, "withdrawn"),
        # A filtered file, or one that may be incomplete, settles no question.
        ([FEE], 10_200, "contradicts"),
        ([a_line("T1", 300, "TED")], 10_200, "contradicts"),
        ([FEE, a_line("T1", 300, "TED")], None, "contradicts"),
        ([FEE, a_line("T1", 300, "TED")], 10_300, "contradicts"),
    ],
)
def test_only_a_whole_file_ends_a_question(lines: list[InstitutionItem], closing: int | None, waits: str) -> None:
    recorded = Recorded()
    known = [FEE, a_line("T1", 300, "TED")]
    recorded.read(*known, closing=10_200)
    recorded.closed = frozenset({july(1)})
    recorded.read(*known, a_line("T2", 500, "TED 2"), closing=10_200)
    assert recorded.items["T2"].waits == "contradicts"
    recorded.ends = {JUNE_ENDS: 10_000, july(1): 10_200}
    recorded.read(*lines, closing=closing)
    assert recorded.items["T2"].waits == waits


@pytest.mark.parametrize(
    ("cents", "closing", "outcome"),
    [
        ((-100, -200), 9_700, "new"),
        ((-100, 50), 9_950, "new"),
        # No balances, balances that disagree, and lines that may be two texts without whose sum of nothing they agree too.
        ((-100, -200), None, "perhaps_text"),
        ((-100, -200), 9_800, "perhaps_text"),
        ((-100, -200, 200), 9_900, "perhaps_text"),
        ((-100, -500, 300, 200), 9_900, "perhaps_text"),
    ],
)
def test_lines_that_may_be_a_payers_text_count_if_the_balances_agree_with_all_of_them_alone(
    cents: tuple[int, ...], closing: int | None, outcome: str
) -> None:
    recorded, lines = Recorded(), [a_line(f"F{number}", one, f"TED {number}") for number, one in enumerate(cents)]
    assert recorded.read(*lines, closing=closing, perhaps_texts=lines) == [outcome] * len(lines)
    # What a file tells in which no text can be a line is none; the sums have counted it all the time.
    assert recorded.counted == sorted(cents)
    recorded.read(*lines, closing=closing)
    assert {item.waits for item in recorded.items.values()} == {None}


@pytest.mark.parametrize(
    ("lines", "closing"),
    [
        ([a_line(f"B{number}", 1000, f"SALDO {number}") for number in range(6_000)], 10_000 + 3_000_000),
        (
            [
                *(a_line(f"B{number}", 3 << number, f"SALDO {number}") for number in range(13)),
                *(a_line(f"C{number}", 1, "SALDO") for number in range(20_000)),
            ],
            10_000 + 30_000,
        ),
        ([a_line("D", -1, "TARIFA X", counterparty=str(number)) for number in range(20_000)], None),
    ],
)
def test_many_doubts_and_lines_of_one_id_are_judged_in_bounded_time(lines: list[InstitutionItem], closing: int | None) -> None:
    begun_s = time.process_time()
    recorded = Recorded()
    outcomes = recorded.read(*lines, closing=closing)
    assert {*outcomes} == {"new" if closing is None else "perhaps_balance"}
    assert (len(recorded.items), time.process_time() - begun_s < 20) == (len(lines), True)


def test_a_nameless_line_equal_to_the_closing_waits_beside_a_weakly_marked_one() -> None:
    recorded = Recorded()
    recorded.ends = {JUNE_ENDS: 10_700}
    lines = ("A", -9700, "BOLETO"), ("A2", -9700, "APLICACAO SALDO"), ("B", 10_000, "RESGATE SALDO"), ("C", -1000, "TARIFA")
    outcomes = recorded.read(*(a_line(*line) for line in lines), a_line("S", 300, "RESUMO DO DIA"), days=(1, 1), closing=300)
    assert (outcomes[-1], recorded.counted) == ("perhaps_balance", [-9700, -1000])
