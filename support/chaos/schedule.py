"""A schedule of faults, drawn from a seed: the same seed gives the same schedule. Pure."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final, Literal

from msgspec import Struct

from support.killed_process import POINTS

FaultKind = Literal[
    "kill", "stop", "die", "freeze", "cut", "half_open", "vanish", "away", "held", "commit", "slow", "read_only", "disk_full",
    "disk_slow", "memory", "clock", "rail", "deaf",
]  # fmt: skip

_REFUND_THERE: Final = ("name there", "refund there", "question there")
PARTS: Final = ("serve", "work", "second", "sandbox", "database", "backend")
"""``second`` is the second worker, ``backend`` a process of PostgreSQL."""
WIRES: Final = ("database", "rail")
CUTS: Final = ("before", "after", "late")
ADVANCES_S: Final = ("1", "70", "3600", "90000")
EFFECTS: Final = (
    *("no_answer", "lost", "duplicate_answer", "out_of_order", "unavailable", "delay:700", "reject:AB03"),
    *("delay:20000", "two_steps:300", "two_steps:40000", "cancel:AB03:300", "dated_back:7200"),
)
"""Faults of a rail: silent, late, doubled, contradictory or lying."""
OPERATIONS: Final = ("submit", "query", "refund", "payment", "lookup")

Targets = Mapping[FaultKind, Sequence[str]]
_PARTS_HERE: Final = ("serve", "work", "database", "backend")
_POINTS_HERE: Final = (
    *(f"{part} {moment} group write" for part in ("serve", "work") for moment in ("before", "after")),
    *(f"work {moment} {name}" for name in ("mark", *_REFUND_THERE) for moment in ("before", "after")),
    *(f"serve after COMMIT of {name}" for name in ("create_charges", "start_refunds")),
    *(f"work after COMMIT of {name}" for name in ("write_endings", "receive_credits")),
)
_FACE: Final = ("face_token", "face_read", "face_write")
_ANY_ANSWER: Final = (
    "unavailable", "no_answer", "lost", "delay:700", "delay:12000", "html:before", "html:after", "too_many:1",
)  # fmt: skip
TARGETS: Final[dict[FaultKind, Sequence[str]]] = {
    "kill": PARTS,
    "stop": PARTS,
    "die": POINTS,
    "freeze": POINTS,
    "cut": WIRES,
    "half_open": WIRES,
    "vanish": WIRES,
    "away": WIRES,
    "held": ("rail",),
    "commit": CUTS,
    "slow": WIRES,
    "read_only": ("database",),
    "disk_full": ("database",),
    "disk_slow": ("database",),
    "memory": ("backend", "work", "serve"),
    "clock": ADVANCES_S,
    "rail": tuple(
        f"{operation} {effect}"
        for operation in OPERATIONS
        for effect in EFFECTS
        if not effect.startswith("dated_back") or operation == "payment"
    ),
    "deaf": ("receiver",),
}
TARGETS_HERE: Final[Targets] = dict(
    kill=(*_PARTS_HERE, "second"), stop=(*_PARTS_HERE, "second"), die=_POINTS_HERE, freeze=_POINTS_HERE, cut=WIRES,
    half_open=WIRES, vanish=WIRES, away=WIRES, commit=CUTS, slow=WIRES, read_only=("database",),
    disk_slow=("database",), memory=("backend", "work", "serve"),
)  # fmt: skip
"""Faults of an installation with its money at an institution; ``rail`` is the wire to the institution."""
TARGETS_THERE: Final[Targets] = dict(
    kill=PARTS,
    stop=PARTS,
    cut=WIRES,
    half_open=WIRES,
    commit=CUTS,
    slow=WIRES,
    read_only=("database",),
    rail=(
        *(f"{operation} {effect}" for operation in _FACE for effect in _ANY_ANSWER),
        *(f"face_read {effect}" for effect in ("token_ended", "lag:3", "lag:300", "page_shift", "page_shift")),
        *(f"face_write {effect}" for effect in ("token_ended", "duplicate_answer", "out_of_order", "no_answer", "lost")),
        *("callback lost", "callback duplicate_answer"),
        *("refund no_answer", "refund lost", "refund delay:3000", "refund reject:AB03", "refund two_steps:1000"),
        *("payment delay:1500", "payment duplicate_answer", "payment two_steps:1000", "payment cancel:AB03:300"),
    ),
)
"""Faults of the institution."""
_OFTEN: Final[dict[FaultKind, int]] = dict(kill=6, stop=3, cut=3, half_open=2, away=2, commit=4, slow=1, rail=8, clock=2)
"""How often a fault occurs, if not once."""
_LATER: Final[dict[FaultKind, int]] = dict(die=6, freeze=2, held=2, disk_slow=1, deaf=1)
"""Faults that were added later are drawn separately, so that a recorded seed keeps its schedule."""
_LEASE_S: Final = 15.0
_LASTS_S: Final[dict[FaultKind, tuple[float, float]]] = dict(
    # Half of them last longer than a worker's lease.
    stop=(0.2, 2 * _LEASE_S),
    freeze=(0.2, 1.5 * _LEASE_S),
    half_open=(1.0, 10.0),
    away=(0.5, 6.0),
    # Longer than a worker waits for an answer.
    held=(1.0, 9.0),
    slow=(2.0, 8.0),
    read_only=(1.0, 6.0),
    disk_full=(1.0, 4.0),
    disk_slow=(2.0, 8.0),
    memory=(1.0, 6.0),
    deaf=(0.5, 4.0),
)
Cycle = Sequence[tuple[float, FaultKind, str, float]]
"""Repeated faults: time within the cycle, kind, target, duration."""
_PAUSE_S: Final = (0.3, 3.5)
_LONG_PAUSE_S: Final = (1.0, 7.0)


class Fault(Struct, frozen=True, kw_only=True):
    at_s: float  # seconds after the beginning
    kind: FaultKind
    target: str
    lasts_s: float  # 0 if it has no end

    def says(self) -> str:
        lasts = f" for {self.lasts_s:.1f} s" if self.lasts_s else ""
        return f"{self.at_s:.1f} s: {self.kind} {self.target}{lasts}"


def plan(seed: int, seconds: float) -> list[Fault]:
    first = [kind for kind in TARGETS if kind not in _LATER for _ in range(_OFTEN.get(kind, 1))]
    later = [kind for kind, often in _LATER.items() for _ in range(often)]
    found = _draw(Random(seed), first, _PAUSE_S, seconds)
    found += _draw(Random(f"{seed} later"), later, _LONG_PAUSE_S, seconds)
    return sorted(found, key=lambda fault: fault.at_s)


def plan_of(side: str, targets: Targets, seed: int, seconds: float) -> list[Fault]:
    often = _LATER | _OFTEN
    kinds = [kind for kind in targets for _ in range(often.get(kind, 1))]
    return _draw(Random(f"{seed} {side}"), kinds, _LONG_PAUSE_S, seconds, targets)


def _draw(
    chance: Random, kinds: Sequence[FaultKind], pause_s: tuple[float, float], seconds: float, targets: Targets = TARGETS
) -> list[Fault]:
    found: list[Fault] = []
    at_s = chance.uniform(*pause_s)
    while at_s < seconds:
        kind = chance.choice(kinds)
        lasts_s = chance.uniform(*_LASTS_S[kind]) if kind in _LASTS_S else 0.0
        found.append(Fault(at_s=at_s, kind=kind, target=chance.choice(targets[kind]), lasts_s=lasts_s))
        at_s += chance.uniform(*pause_s)
    return found


def repeat(cycle: Cycle, every_s: float, seconds: float) -> list[Fault]:
    """Repeat the same faults as often as the time allows."""
    found: list[Fault] = []
    began_s = 0.0
    while began_s < seconds:
        found += [
            Fault(at_s=began_s + at_s, kind=kind, target=target, lasts_s=lasts_s)
            for at_s, kind, target, lasts_s in cycle
            if began_s + at_s < seconds
        ]
        began_s += every_s
    return found
