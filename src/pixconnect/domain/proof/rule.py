"""What must hold of everything that is written, and what breaks it.

A rule is one question to the tables, and its answer is what breaks it: nothing, where it holds. Both sides are compared item by
item, so that two mistakes that cancel out are two findings.
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
    """What the operator names it by, and metrics and pages do."""
    says: str
    """What holds, in a sentence."""
    broken: str = ""
    """Selects violations: ``holder_id``, ``ids`` (texts), ``expected``, ``found`` (texts or null) and ``since``.

    Empty where Python compares it (``usecases/proof``, ``store/proof/shape.py``).

    Of holders: ``$1`` is the first one's id and ``$2`` the last one's. ``{transfers}`` and its like are those holders' rows:
    all of them, or in a run over changes the changed ones (``store/proof/look.py``). ``{runs_on}`` is whether instants only
    rise; ``{kept_since}``, ``{delivered_since}`` and ``{feed_from}`` are the ages at which rows may be gone.
    """
    meaning: str
    """What it may mean where it is broken."""
    todo: str
    """What to do then."""
    of: Subject = "holders"
    why_not: str | None = None
    """Selects why the rule cannot be checked here, if that is so."""
    is_of_whole_runs: bool = False
    """It reads everything regardless of changes, so a run over changes omits it."""


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that breaks a rule, as the tables say it."""

    rule: str
    holder_id: int | None
    ids: Sequence[str]
    expected: str | None
    found: str | None
    since: datetime | None
    """When it began, as far as rows show it."""

    @property
    def name(self) -> tuple[str, int | None, tuple[str, ...]]:
        """What it is called: looked at twice, it is the same one though its sides may have moved."""
        return self.rule, self.holder_id, tuple(self.ids)


class Judgement(Struct, frozen=True, kw_only=True):
    """What became of one rule in a run, or of it on one account at an institution."""

    rule: str
    verdict: Verdict
    account: str | None = None
    """The account at an institution, where the rule is judged for each."""
    reason: str | None = None
    """Why it is not checked."""
