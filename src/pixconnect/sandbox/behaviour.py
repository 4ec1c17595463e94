"""How the network treats one message; decided when it comes in."""

from datetime import timedelta
from functools import lru_cache
from typing import Final

from msgspec import Struct, structs

from pixconnect.domain.money import reject_code
from pixconnect.domain.rules.register import ARRANGEMENT

# The scheme rejects (AB03) what has not settled by then.
LOST_AFTER_MS: Final = ARRANGEMENT.find_constant("settlement_deadline").duration // timedelta(milliseconds=1)


class Behaviour(Struct, frozen=True, kw_only=True):
    delay_ms: int | None = None
    """From acceptance to the outcome; ``None`` is the usual latency."""
    code: str | None = None
    """The reject code; ``None`` settles."""
    arrives: bool = True
    """Whether the network hears of the message at all."""
    is_answered: bool = True
    reports_count: int = 1
    is_early: bool = False
    """Whether messages come out of order: an outcome before its answer, or after those of later messages."""
    is_refused: bool = False
    """Whether the network cannot be reached."""
    ends_after_ms: int | None = None
    """From accepting a payment of a holder to its end; ``None`` is as the sandbox is set: usually one step."""
    cancel_code: str | None = None
    """Why a payment that was accepted is cancelled; ``None`` settles."""
    is_suspect: bool = False
    """Whether the institution holds a payment of a holder until its end."""
    fee_cents: int | None = None
    """What the institution takes of the holder for it, by a movement of its own."""
    dated_back_s: int | None = None
    """How far before its time the network dates it."""

    @property
    def is_rejected_at_once(self) -> bool:
        """Whether the network rejects it without asking the receiver's institution."""
        return self.code in reject_code.RAISED_BY_NETWORK


USUAL: Final = Behaviour()
SLOW: Final = Behaviour(delay_ms=3_000)
SILENT: Final = Behaviour(is_answered=False, reports_count=0)
CANCELLED_AFTER_MS: Final = 50
HELD_MS: Final = ARRANGEMENT.find_constant("precautionary_block").duration // timedelta(milliseconds=1)
SUSPECT_CODE: Final = "FRAD"
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
    """Read the effect of a fault rule.

    Example:
        >>> behaviour_of("delay:250").delay_ms
        250
    """
    kind, _, argument = effect.partition(":")
    if kind == "delay":
        return Behaviour(delay_ms=int(argument))
    if kind == "two_steps":
        return Behaviour(ends_after_ms=int(argument))
    if kind == "cancel":
        code, _, after_ms = argument.partition(":")
        return Behaviour(cancel_code=code, ends_after_ms=int(after_ms or CANCELLED_AFTER_MS))
    if kind == "suspect":
        verdict, _, after_ms = argument.partition(":")
        return hold(USUAL, is_returned=verdict == "return", after_ms=int(after_ms or HELD_MS))
    if kind == "fee":
        return Behaviour(fee_cents=int(argument))
    if kind == "dated_back":
        return Behaviour(dated_back_s=int(argument))
    if kind == "reject":
        return Behaviour(code=argument)
    return _EFFECTS[kind]


def hold(behaviour: Behaviour, *, is_returned: bool, after_ms: int = HELD_MS) -> Behaviour:
    """Hold a payment as suspect, and release or return it after some time."""
    return structs.replace(
        behaviour, is_suspect=True, ends_after_ms=after_ms, cancel_code=SUSPECT_CODE if is_returned else None
    )


def reject(behaviour: Behaviour, code: str) -> Behaviour:
    return structs.replace(behaviour, code=code)
