"""What callers were told while something failed: how long nothing was written, how soon they heard, and in which words."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median
from typing import Final

from msgspec import Struct, field

from support.chaos.history import NO_ANSWER, Call
from support.failover.failing import KINDS, Kind

WRITES: Final = frozenset({"charge", "transfer", "refund", "deposit", "payment"})
NOTICED_WITHIN_S: Final = 3.0
"""So long after the last write that was acknowledged a process may take to notice."""
AT_ONCE_S: Final = 0.1
IN_FLIGHT_S: Final = 5.0
WITHOUT_WRITES_MAX_S: Final = 30.0
"""What is demanded of each failure, however much else the machine does."""


class Round(Struct, frozen=True, kw_only=True):
    """One failure, and what was seen of it.

    Attributes:
        silent_s: The longest time between two writes that were acknowledged, over all callers of one installation.
        whole_after_s: From its beginning until one machine wrote again, with two that follow.
        answers: How many there were by status; 0 is none.
        slowest_s: Of all answers to what was asked for meanwhile.
        late_s: Of refusals, to what was asked for from three seconds after the last write that was acknowledged on, until one
            was again. A switchover begins later than its command, and what is asked for then is not late.
        starved: Lines of etcd's log by which an election had no other cause than a lack of CPU.
    """

    kind: Kind
    silent_s: float
    whole_after_s: float
    answers: dict[int, int]
    slowest_s: float
    slowest_refusal_s: float
    late_s: list[float]
    starved: int = 0


class Line(Struct, kw_only=True):
    kind: str
    count: int = 0
    silent_s: list[float] = field(default_factory=list)
    answers: Counter[int] = field(default_factory=Counter)
    slowest_s: float = 0.0
    late_s: list[float] = field(default_factory=list)


def see_round(
    kind: Kind, calls: Sequence[Call], began_s: float, ended_s: float, whole_after_s: float, starved: int
) -> Round:
    """What callers of one installation were told of one failure.

    Args:
        calls: All of its book.
        began_s: When it began, by the clock of the book.
        ended_s: When everything was whole again.
    """
    quiet_s, back_s = _find_silence(calls, began_s, ended_s)
    meanwhile = [call for call in calls if call.ended_s >= began_s and call.began_s <= ended_s and call.ended_s < 1e11]
    refused = [call for call in meanwhile if call.status in {503, 504}]
    late = [
        call.ended_s - call.began_s
        for call in refused
        if call.status == 503 and call.began_s >= quiet_s + NOTICED_WITHIN_S and call.ended_s <= back_s
    ]
    return Round(
        kind=kind,
        silent_s=back_s - quiet_s,
        whole_after_s=whole_after_s,
        answers=dict(Counter(call.status for call in meanwhile)),
        slowest_s=max((call.ended_s - call.began_s for call in meanwhile), default=0.0),
        slowest_refusal_s=max((call.ended_s - call.began_s for call in refused), default=0.0),
        late_s=late,
        starved=starved,
    )


def _find_silence(calls: Iterable[Call], began_s: float, ended_s: float) -> tuple[float, float]:
    """Between which two instants the longest time without a write lies that was acknowledged."""
    done = sorted(call.ended_s for call in calls if call.kind in WRITES and call.status in {200, 201})
    before = max((at_s for at_s in done if at_s < began_s), default=began_s)
    during = [before, *(at_s for at_s in done if began_s <= at_s <= ended_s), ended_s]
    return max(pairwise(during), key=lambda both: both[1] - both[0])


def sum_up(rounds: Sequence[Round]) -> list[Line]:
    lines = {kind: Line(kind=kind) for kind in (*KINDS, "all")}
    for each in rounds:
        for line in (lines[each.kind], lines["all"]):
            line.count += 1
            line.silent_s.append(each.silent_s)
            line.answers.update(each.answers)
            line.slowest_s = max(line.slowest_s, each.slowest_refusal_s)
            line.late_s += each.late_s
    return [line for line in lines.values() if line.count]


def write_table(rounds: Sequence[Round]) -> str:
    head = (
        "| What failed | times | seconds without writes, p50 | max | 200 | 503 | 504 | no answer | 500 "
        "| slowest 503 or 504 | 503 once it was noticed, p50 | p99 |"
    )
    rows = [head, "|" + "---|" * 12]
    for line in sum_up(rounds):
        answers = line.answers
        done = answers[200] + answers[201]
        late = sorted(line.late_s)
        noticed = (
            f"{1000 * median(late):.0f} ms | {1000 * late[min(len(late) - 1, int(0.99 * len(late)))]:.0f} ms"
            if late
            else "- | -"
        )
        rows.append(
            f"| {line.kind} | {line.count} | {median(line.silent_s):.1f} | {max(line.silent_s):.1f} | {done} | "
            f"{answers[503]} | {answers[504]} | {answers[NO_ANSWER]} | {answers[500]} | {line.slowest_s:.1f} s | {noticed} |"
        )
    return "\n".join(rows) + "\n"
