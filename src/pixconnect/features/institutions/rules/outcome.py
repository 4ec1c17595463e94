"""The outcomes of judging a statement line: whether it is money, and whether a person is asked about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

from msgspec import Struct

from pixconnect.features.institutions.rules.joining import Waiting

Outcome = Literal["new", "known"] | Waiting


Answer = Literal["counts", "ours", "aside", "out"]
ANSWERS: Final[tuple[Answer, ...]] = get_args(Answer)


class OutcomeTraits(Struct, frozen=True):
    counts: bool
    """The line is money that moved: it is in its day's sums, and is joined or posted."""
    asks: Literal["nobody", "later", "person"]
    """Later: only if no reading has explained it for a while."""
    answers: tuple[Answer, ...] = ()
    """Those that a person can give: ``features/cases/service/answer.py`` does them."""


OUTCOMES: Final[Mapping[Outcome, OutcomeTraits]] = {
    "new": OutcomeTraits(counts=True, asks="nobody"),
    "known": OutcomeTraits(counts=True, asks="nobody"),
    "changed": OutcomeTraits(counts=False, asks="person", answers=("counts", "aside")),
    "announced": OutcomeTraits(counts=False, asks="nobody"),
    "balance_line": OutcomeTraits(counts=False, asks="nobody"),
    "perhaps_balance": OutcomeTraits(counts=False, asks="person", answers=("counts", "aside")),
    "same_line": OutcomeTraits(counts=False, asks="nobody"),
    "perhaps_known": OutcomeTraits(counts=False, asks="person", answers=("counts", "aside")),
    "contradicts": OutcomeTraits(counts=False, asks="person", answers=("counts", "aside")),
    "withdrawn": OutcomeTraits(counts=False, asks="nobody"),
    # For lines that two operators remove, or have decided on.
    "perhaps_struck": OutcomeTraits(counts=True, asks="person", answers=("out",)),
    "struck": OutcomeTraits(counts=False, asks="nobody"),
    "perhaps_back": OutcomeTraits(counts=False, asks="person", answers=("counts", "aside")),
    "perhaps_text": OutcomeTraits(counts=True, asks="person", answers=("counts", "ours", "aside")),
    "no_money": OutcomeTraits(counts=False, asks="nobody"),
    # Of lines that count and are joined to nothing: see ``unmatched.judge_left``.
    "before_opening": OutcomeTraits(counts=True, asks="nobody"),
    "opening_day": OutcomeTraits(counts=True, asks="person", answers=("counts", "aside")),
    "not_yet_read": OutcomeTraits(counts=True, asks="later", answers=("ours",)),
    "order_unknown": OutcomeTraits(counts=True, asks="person"),
    "could_be_ours": OutcomeTraits(counts=True, asks="person", answers=("counts", "ours")),
    "day_not_over": OutcomeTraits(counts=True, asks="later"),
}
"""docs/guides/reconcile.md explains each to operators."""
SET_ASIDE: Final = tuple(name for name, traits in OUTCOMES.items() if not traits.counts)
ASK_NOBODY: Final = tuple(name for name, traits in OUTCOMES.items() if traits.asks == "nobody")
