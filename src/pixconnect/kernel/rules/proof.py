"""The rules of the proof: invariants of all stored data, and their violations.

A rule is one query, and its rows are the violations: none, if it holds. Both sides are compared item by item, so that two
errors that cancel out are two findings.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

Subject = Literal["holders", "installation", "server", "rail", "accounts", "heads"]
"""The subject of a rule.

Holders' books, our schemas, their server, the rail, accounts at institutions, or recorded heads of chains.
"""
Extent = Literal["whole", "changes"]  # of a run: everything, or changes since the last run
Verdict = Literal["checked", "provisional", "not_checkable"]
"""Whether a rule was checked.

Or its facts are too young, because they are reported late; or the rule cannot be checked.
"""


class Rule(Struct, frozen=True, kw_only=True):
    name: str
    """Its name for operators, metrics and pages."""
    says: str
    """The invariant, in a sentence."""
    broken: str = ""
    """Selects violations: ``holder_id``, ``ids`` (texts), ``expected``, ``found`` (texts or null) and ``since``.

    Empty if Python compares it.

    For rules of holders: ``$1`` is the first holder's id and ``$2`` the last one's. ``{transfers}`` and its like are those
    holders' rows: all of them, or in a run over changes the changed ones. ``{runs_on}`` is whether instants only rise;
    ``{kept_since}``, ``{delivered_since}`` and ``{feed_from}`` are the ages at which rows may be gone. ``{parts}`` are the
    rows that features add.
    """
    meaning: str
    todo: str
    of: Subject = "holders"
    why_not: str | None = None
    """Selects why the rule cannot be checked here, if so."""
    judge_accounts: "Callable[[Any, datetime], Awaitable[tuple[Sequence[Judgement], Sequence[Finding]]]] | None" = None
    """For rules of accounts: returns, by a connection and the service time, each account's judgement, and violations."""
    is_of_whole_runs: bool = False
    """It reads everything regardless of changes, so a run over changes omits it."""


class RulePart(Struct, frozen=True, kw_only=True):
    """Rows that a feature adds to the ones that a rule compares."""

    rule: str
    selects: str


class Finding(Struct, frozen=True, kw_only=True):
    """One violation of a rule, by the tables."""

    rule: str
    holder_id: int | None = None
    ids: Sequence[str]
    expected: str | None = None
    found: str | None = None
    since: datetime | None = None  # when it began, as far as rows show

    @property
    def name(self) -> tuple[str, int | None, tuple[str, ...]]:
        """Return its identity: the second check finds the same name, though its sides may have moved."""
        return self.rule, self.holder_id, tuple(self.ids)


class Judgement(Struct, frozen=True, kw_only=True):
    """The result of one rule in a run, or on one account at an institution."""

    rule: str
    verdict: Verdict
    account: str | None = None  # the account at an institution, if the rule is judged per account
    reason: str | None = None
