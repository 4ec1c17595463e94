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
"""Whose a rule is: of the books of holders, of our schemas, of their server, of the rail, of accounts at institutions, or of
heads of chains that somebody has kept."""
Extent = Literal["whole", "changes"]
"""Of a run: everything, or what has changed since it was looked at last."""
Verdict = Literal["checked", "provisional", "not_checkable"]
"""Whether a rule was looked at; what is too young to be judged, because others tell it late; or what nobody can look at."""


class Rule(Struct, frozen=True, kw_only=True):
    name: str
    """What the operator names it by, and metrics and pages do."""
    says: str
    """What holds, in a sentence."""
    broken: str = ""
    """Selects what breaks it: ``holder_id``, ``ids`` (texts), ``expected``, ``found`` (texts or null) and ``since``.

    Empty where Python compares it (``usecases/proof``, ``store/proof/shape.py``).

    Of holders: ``$1`` is the first one's id and ``$2`` the last one's. ``{transfers}`` and its like are those holders' rows:
    all of them, or in a run over changes those to which something has happened (``store/proof/look.py``).
    ``{runs_on}`` says whether instants only rise; ``{kept_since}``, ``{delivered_since}`` and ``{feed_from}`` what is old
    enough to be gone.
    """
    meaning: str
    """What it may mean where it is broken."""
    todo: str
    """What to do then."""
    of: Subject = "holders"
    why_not: str | None = None
    """Selects why nobody can look at it here, where that is so."""
    is_of_whole_runs: bool = False
    """It reads everything whatever has changed, so a run over changes leaves it out."""


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that breaks a rule, as the tables say it."""

    rule: str
    holder_id: int | None
    ids: Sequence[str]
    expected: str | None
    found: str | None
    since: datetime | None
    """When it began, as far as the rows tell."""

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
