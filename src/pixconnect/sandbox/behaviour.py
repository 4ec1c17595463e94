"""What the network does with one message, decided when it comes in."""

from functools import lru_cache
from typing import Final

from msgspec import Struct, structs

from pixconnect.domain import reject_code

LOST_AFTER_MS: Final = 40_000
"""The scheme gives up (AB03) on what did not settle 40 s after it was accepted (Manual de Tempos 7.0)."""


class Behaviour(Struct, frozen=True, kw_only=True):
    """What happens to one message.

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


USUAL: Final = Behaviour()
SLOW: Final = Behaviour(delay_ms=3_000)
SILENT: Final = Behaviour(is_answered=False, reports_count=0)
LOST_INSIDE: Final = Behaviour(delay_ms=LOST_AFTER_MS, code="AB03")

_EFFECTS: Final = {
    "no_answer": SILENT,
    "lost": Behaviour(arrives=False, is_answered=False, reports_count=0),
    "duplicate_answer": Behaviour(reports_count=2),
    "out_of_order": Behaviour(is_early=True),
    "unavailable": Behaviour(is_refused=True),
}


@lru_cache(256)
def behaviour_of(effect: str) -> Behaviour:
    """What a fault rule's effect does.

    Example:
        >>> behaviour_of("delay:250").delay_ms
        250
    """
    kind, _, argument = effect.partition(":")
    if kind == "delay":
        return Behaviour(delay_ms=int(argument))
    if kind == "reject":
        return Behaviour(code=argument)
    return _EFFECTS[kind]


def reject(behaviour: Behaviour, code: str) -> Behaviour:
    """The same behaviour, ending in a rejection."""
    return structs.replace(behaviour, code=code)
