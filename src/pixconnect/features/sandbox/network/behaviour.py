"""Fault rules: which messages they match, and how often they still apply; and the behaviour of one message.

Every random draw has a name. So an additional draw changes no other, and neither does a restart.
"""

import hashlib
import string
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from datetime import timedelta
from functools import lru_cache
from typing import Final
from uuid import UUID

from msgspec import Struct, structs

from pixconnect.features.sandbox.rules import RULES_MAX, FaultMatch, FaultRule, Message, Operation, SandboxRefusal
from pixconnect.kernel.register import ARRANGEMENT
from pixconnect.kernel.rules import reject_code

_LETTERS: Final = string.digits + string.ascii_letters


class Chance:
    def __init__(self, seed: int) -> None:
        self._key = seed.to_bytes(16, signed=True)

    def fraction(self, *names: object) -> float:
        """Return a number from 0 to just below 1."""
        # 53 of the 256 bits that were drawn: as many as a float holds.
        return (self._draw(names) >> 203) / (1 << 53)

    def below(self, limit: int, *names: object) -> int:
        return self._draw(names) % limit

    def text(self, length: int, *names: object) -> str:
        """Return up to 40 letters and digits, the maximum of one draw."""
        drawn = self._draw(names)
        letters: list[str] = []
        for _ in range(length):
            drawn, letter = divmod(drawn, 62)
            letters.append(_LETTERS[letter])
        return "".join(letters)

    def uuid(self, *names: object) -> UUID:
        return UUID(int=self._draw(names) >> 128, version=4)

    def cpf(self, *names: object) -> str:
        digits = [int(digit) for digit in f"{1 + self.below(999_999_998, *names):09d}"]
        # Nine equal digits have valid check digits, but are no CPF.
        if len(set(digits)) == 1:
            digits[-1] = (digits[-1] + 1) % 10
        for weight in (10, 11):
            rest = sum(digit * (weight - position) for position, digit in enumerate(digits)) % 11
            digits.append(0 if rest < 2 else 11 - rest)
        return "".join(map(str, digits))

    def _draw(self, names: tuple[object, ...]) -> int:
        text = "\0".join(map(str, names)).encode()
        return int.from_bytes(hashlib.blake2b(text, digest_size=32, key=self._key).digest())


# The scheme rejects (AB03) orders not settled by then.
LOST_AFTER_MS: Final = ARRANGEMENT.find_constant("settlement_deadline").duration // timedelta(milliseconds=1)


class Behaviour(Struct, frozen=True, kw_only=True):
    delay_ms: int | None = None  # from acceptance to the outcome; ``None`` is the usual latency
    code: str | None = None  # the reject code; ``None`` settles
    arrives: bool = True
    is_answered: bool = True
    reports_count: int = 1
    # Whether messages come out of order: an outcome before its answer, or after those of later messages.
    is_early: bool = False
    is_refused: bool = False
    # From accepting a payment of a holder to its end; ``None`` is as the sandbox is set: usually one step.
    ends_after_ms: int | None = None
    cancel_code: str | None = None  # why an accepted payment is cancelled; ``None`` settles
    is_suspect: bool = False  # whether the institution holds a payment of a holder until its end
    fee_cents: int | None = None  # the institution's fee from the holder for it, by a separate movement
    dated_back_s: int | None = None  # how far before its time the network dates it

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
    """Parse the effect of a fault rule.

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


_ONLY_UNAVAILABLE_REACHES = frozenset({"lookup", "resolve", "query"})
_AT_ALL_FACES: Final = frozenset({"delay", "no_answer", "lost", "unavailable", "html", "too_many"})
# Rules of the network do not apply to faces, nor the reverse: each has effects that the other lacks.
_AT_FACES: Final[Mapping[Operation | None, Set[str]]] = {
    "face_token": _AT_ALL_FACES,
    "face_read": _AT_ALL_FACES | {"token_ended", "lag", "page_shift"},
    "face_write": _AT_ALL_FACES | {"token_ended", "duplicate_answer", "out_of_order"},
    "callback": frozenset({"lost", "duplicate_answer"}),
}
# Effects of these messages only, so that other messages do not use such a rule up.
_ONLY_OF: Final[Mapping[str, Set[Operation]]] = {
    "fee": frozenset({"payment", "submit"}),
    "dated_back": frozenset({"payment", "return"}),
    "suspect": frozenset({"payment"}),
}
_ONLY_AT_FACES: Final = frozenset({"html", "too_many", "token_ended", "lag", "page_shift"})


class Faults:
    """The rules in force. ``times`` counts down here; the caller saves the ``changed`` ones."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._draws: Counter[int] = Counter()  # of each rule, by its place
        self.rules: list[FaultRule] = []
        self.changed: dict[int, int] = {}

    def replace(self, rules: Sequence[FaultRule]) -> None:
        self.rules = list(rules)
        self.changed = {}
        self._draws.clear()

    def behaviour_of(self, message: Message) -> Behaviour | None:
        """Apply the first rule that matches; ``None`` when none does."""
        effect = self.draw(message)
        return None if effect is None else behaviour_of(effect)

    def draw(self, message: Message) -> str | None:
        """Return the effect of the first matching rule, and count it down."""
        for position, rule in enumerate(self.rules):
            if rule.times == 0 or not _matches(rule, message) or not self._strikes(position, rule):
                continue
            if rule.times is not None:
                self.rules[position] = structs.replace(rule, times=rule.times - 1)
                self.changed[position] = rule.times - 1
            return rule.effect
        return None

    def concerns(self, message: Message) -> bool:
        """Whether a rule in force matches; nothing is counted down."""
        return any(rule.times != 0 and _matches(rule, message) for rule in self.rules)

    @property
    def hides_everything(self) -> bool:
        """Whether a rule makes the network unreachable for every message."""
        return any(
            rule.effect == "unavailable" and rule.times != 0 and rule.probability is None and rule.match == FaultMatch()
            for rule in self.rules
        )

    def _strikes(self, position: int, rule: FaultRule) -> bool:
        if rule.probability is None:
            return True
        # Counted, because outgoing messages have random ids: the same calls in the same order draw the same.
        self._draws[position] += 1
        return self._chance.fraction("fault", position, self._draws[position]) < rule.probability


def check_rules(rules: Sequence[FaultRule]) -> None:
    """Refuse too many rules (``SandboxRefusal``), and reject codes that the scheme does not have."""
    if len(rules) > RULES_MAX:
        raise SandboxRefusal("invalid", f"rules: at most {RULES_MAX}")
    for position, rule in enumerate(rules):
        kind, code, *_ = [*rule.effect.split(":"), ""]
        if kind in {"reject", "cancel"} and code not in reject_code.REASONS:
            raise SandboxRefusal("invalid", f"rules[{position}].effect: {code} is no reject code of the SPI")
        operation = rule.match.operation
        if kind in _ONLY_OF and operation is not None and operation not in _ONLY_OF[kind]:
            these = " and ".join(sorted(_ONLY_OF[kind]))
            raise SandboxRefusal("invalid", f"rules[{position}].effect: {kind} is of {these} alone")
        if operation in _AT_FACES and kind not in _AT_FACES[operation]:
            there = ", ".join(sorted(_AT_FACES[operation]))
            raise SandboxRefusal("invalid", f"rules[{position}].effect: {kind} is nothing at {operation}: {there}")
        if operation not in _AT_FACES and kind in _ONLY_AT_FACES:
            raise SandboxRefusal("invalid", f"rules[{position}].match.operation: {kind} is at faces only: name which")


def _matches(rule: FaultRule, message: Message) -> bool:
    match = rule.match
    if match.operation is None:
        if message.operation in _AT_FACES:
            return False
        only = _ONLY_OF.get(rule.effect.partition(":")[0])
        if only is not None and message.operation not in only:
            return False
        # A rule for all operations is about money: a lookup or query follows it only where nothing can be reached.
        if rule.effect != "unavailable" and message.operation in _ONLY_UNAVAILABLE_REACHES:
            return False
    elif match.operation != message.operation:
        return False
    if match.amount_cents is not None and match.amount_cents != message.amount_cents:
        return False
    return match.key is None or (message.key is not None and match.key.lower() == message.key.lower())
