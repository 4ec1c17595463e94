"""Fault rules: which messages they match, and how often they still apply."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Final

from msgspec import structs

from pixconnect.domain.money import reject_code
from pixconnect.domain.simulation.sandbox_control import RULES_MAX, FaultRule, Message, Operation, SandboxRefusal
from pixconnect.sandbox import behaviour
from pixconnect.sandbox.behaviour import Behaviour
from pixconnect.sandbox.chance import Chance

_ONLY_UNAVAILABLE_REACHES = frozenset({"lookup", "resolve", "query"})
_TRIES_REMEMBERED_MAX = 10_000
_AT_ALL_FACES: Final = frozenset({"delay", "no_answer", "lost", "unavailable", "html", "too_many"})
# The network follows no rule about faces, and faces none about the network: each has effects that are nothing there.
_AT_FACES: Final[Mapping[Operation | None, Set[str]]] = {
    "face_token": _AT_ALL_FACES,
    "face_read": _AT_ALL_FACES | {"token_ended", "lag", "page_shift"},
    "face_write": _AT_ALL_FACES | {"token_ended", "duplicate_answer", "out_of_order"},
    "callback": frozenset({"lost", "duplicate_answer"}),
}
# What nothing else than these has: other messages do not use such a rule up.
_ONLY_OF: Final[Mapping[str, Set[Operation]]] = {
    "fee": frozenset({"payment", "submit"}),
    "dated_back": frozenset({"payment", "return"}),
    "suspect": frozenset({"payment"}),
}
_ONLY_AT_FACES: Final = frozenset({"html", "too_many", "token_ended", "lag", "page_shift"})


class Faults:
    """The rules in force. ``times`` counts down here; the caller saves what has ``changed``."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._tries: Counter[tuple[int, str]] = Counter()
        self.rules: list[FaultRule] = []
        self.changed: dict[int, int] = {}

    def replace(self, rules: Sequence[FaultRule]) -> None:
        self.rules = list(rules)
        self.changed = {}
        self._tries.clear()

    def behaviour_of(self, message: Message) -> Behaviour | None:
        """Apply the first rule that matches; ``None`` when none does."""
        effect = self.draw(message)
        return None if effect is None else behaviour.behaviour_of(effect)

    def draw(self, message: Message) -> str | None:
        """The effect of the first rule that matches, which is counted down."""
        for position, rule in enumerate(self.rules):
            if rule.times == 0 or not _matches(rule, message) or not self._strikes(position, rule, message):
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
            rule.effect == "unavailable" and rule.times != 0 and rule.probability is None and not _narrows(rule)
            for rule in self.rules
        )

    def _strikes(self, position: int, rule: FaultRule, message: Message) -> bool:
        if rule.probability is None:
            return True
        # Forgetting tries only makes a later one draw what an earlier one drew.
        if len(self._tries) > _TRIES_REMEMBERED_MAX:
            self._tries.clear()
        tried = (position, f"{message.operation}/{message.id}")
        self._tries[tried] += 1
        return self._chance.fraction("fault", *tried, self._tries[tried]) < rule.probability


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


def _narrows(rule: FaultRule) -> bool:
    return rule.match.key is not None or rule.match.amount_cents is not None or rule.match.operation is not None
