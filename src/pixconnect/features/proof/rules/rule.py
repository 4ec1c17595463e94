"""The invariants of all written data, and their violations.

A rule is one query, and its rows are the violations: none, if it holds. Both sides are compared item by item, so that two
mistakes that cancel out are two findings.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

Subject = Literal["holders", "installation", "server", "rail", "accounts", "heads"]
"""The subject of a rule: holders' books, our schemas, their server, the rail, accounts at institutions, or recorded heads of
chains."""
Extent = Literal["whole", "changes"]
"""Of a run: everything, or changes since the last look."""
Verdict = Literal["checked", "provisional", "not_checkable"]
"""Whether a rule was checked; facts too young to judge, because they are reported late; or a rule that cannot be checked."""


class Rule(Struct, frozen=True, kw_only=True):
    name: str
    """Its name for operators, metrics and pages."""
    says: str
    """The invariant, in a sentence."""
    broken: str = ""
    """Selects violations: ``holder_id``, ``ids`` (texts), ``expected``, ``found`` (texts or null) and ``since``.

    Empty where Python compares it (``features/proof/service``, ``features/proof/tables/shape.py``).

    Of holders: ``$1`` is the first one's id and ``$2`` the last one's. ``{transfers}`` and its like are those holders' rows:
    all of them, or in a run over changes the changed ones (``features/proof/tables/look.py``). ``{runs_on}`` is whether
    instants only rise; ``{kept_since}``, ``{delivered_since}`` and ``{feed_from}`` are the ages at which rows may be gone.
    """
    meaning: str
    """The possible meaning of a violation."""
    todo: str
    """The remedy."""
    of: Subject = "holders"
    why_not: str | None = None
    """Selects why the rule cannot be checked here, if that is so."""
    is_of_whole_runs: bool = False
    """It reads everything regardless of changes, so a run over changes omits it."""


class Finding(Struct, frozen=True, kw_only=True):
    """One violation of a rule, by the tables."""

    rule: str
    holder_id: int | None
    ids: Sequence[str]
    expected: str | None
    found: str | None
    since: datetime | None
    """When it began, as far as rows show it."""

    @property
    def name(self) -> tuple[str, int | None, tuple[str, ...]]:
        """Its identity: at a second look it is the same, though its sides may have moved."""
        return self.rule, self.holder_id, tuple(self.ids)


class Judgement(Struct, frozen=True, kw_only=True):
    """The result of one rule in a run, or on one account at an institution."""

    rule: str
    verdict: Verdict
    account: str | None = None
    """The account at an institution, where the rule is judged for each."""
    reason: str | None = None
    """Why it is not checked."""
