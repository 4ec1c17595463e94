"""The answers during a failure: how long no write succeeded, how soon callers were refused, and with which errors."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median
from typing import Final

from msgspec import Struct, field

from support.chaos.history import NO_ANSWER, Call
from support.failover.failing import KINDS, Kind

WRITES: Final = frozenset({"charge", "transfer", "refund", "deposit", "payment"})
NOTICED_WITHIN_S: Final = 3.0  # seconds after the last acknowledged write within which a process must notice
AT_ONCE_S: Final = 0.1
IN_FLIGHT_S: Final = 5.0
WITHOUT_WRITES_MAX_S: Final = 30.0  # the bounds on each failure, however busy the machine is


class Round(Struct, frozen=True, kw_only=True):
    """A failure and its observations.

    Attributes:
        silent_s: The longest time between two acknowledged writes, over all callers of one installation.
        whole_after_s: From its beginning until one machine wrote again, with two followers.
        answers: Counts by status; 0 is no answer.
        slowest_s: The slowest answer to requests made during the failure.
        late_s: The times of refusals of requests from three seconds after the last acknowledged write to the next one.
            A switchover begins after its command, so requests before it do not count.
        starved: Log lines of etcd that show an election caused by a lack of CPU.
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


def see_round(kind: Kind, calls: Sequence[Call], began_s: float, ended_s: float, whole_after_s: float, starved: int) -> Round:
    """Collect the answers of one installation's book during one failure, until everything was healthy again."""
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
    """Find the longest time without an acknowledged write, as two instants."""
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
