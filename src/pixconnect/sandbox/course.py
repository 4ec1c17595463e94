"""How one message goes: what the network does with it, decided when it comes in."""

from functools import lru_cache
from typing import Final

from msgspec import Struct, structs

from pixconnect.domain import reject_code

LOST_AFTER_MS: Final = 40_000
"""The scheme gives up (AB03) on what did not settle 40 s after it was accepted (Manual de Tempos 7.0)."""


class Course(Struct, frozen=True, kw_only=True):
    """How one message goes.

    Attributes:
        delay_ms: Until its outcome; ``None`` is the usual latency.
        code: Why it is rejected; ``None`` settles.
        arrives: False loses it on its way in: the network never hears of it.
        is_answered: False loses the answer, and the report of its outcome too: it must be asked for.
        reports_count: How often its outcome is reported.
        is_early: Its outcome is known before its own answer is given, or overtaken by later ones.
        is_refused: The network cannot be reached.
    """

    delay_ms: int | None = None
    code: str | None = None
    arrives: bool = True
    is_answered: bool = True
    reports_count: int = 1
    is_early: bool = False
    is_refused: bool = False

    @property
    def is_rejected_at_once(self) -> bool:
        """Whether the network itself says no, before the receiver's institution is asked."""
        return self.code in reject_code.RAISED_BY_NETWORK


USUAL: Final = Course()
SLOW: Final = Course(delay_ms=3_000)
SILENT: Final = Course(is_answered=False, reports_count=0)
LOST_INSIDE: Final = Course(delay_ms=LOST_AFTER_MS, code="AB03")

_EFFECTS: Final = {
    "no_answer": SILENT,
    "lost": Course(arrives=False, is_answered=False, reports_count=0),
    "duplicate_answer": Course(reports_count=2),
    "out_of_order": Course(is_early=True),
    "unavailable": Course(is_refused=True),
}


@lru_cache(256)
def course_of(effect: str) -> Course:
    """What a fault rule's effect does.

    Example:
        >>> course_of("delay:250").delay_ms
        250
    """
    kind, _, argument = effect.partition(":")
    if kind == "delay":
        return Course(delay_ms=int(argument))
    if kind == "reject":
        return Course(code=argument)
    return _EFFECTS[kind]


def reject(course: Course, code: str) -> Course:
    """The same course, ending in a rejection."""
    return structs.replace(course, code=code)
