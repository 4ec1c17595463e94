"""One try to write a batch."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from pixconnect.foundation.database_failure import DATABASE_AWAY


class BatchAttempt:
    """How long a try may wait for locks, and whether it has reached COMMIT."""

    __slots__ = ("is_brief", "is_committing")

    def __init__(self, *, is_brief: bool) -> None:
        self.is_brief = is_brief
        self.is_committing = False

    def may_have_committed(self, error: Exception) -> bool:
        """Whether the batch may stand although the try ended with this: only the server can say that it does not."""
        is_refusal = isinstance(error, asyncpg.PostgresError) and not isinstance(error, DATABASE_AWAY)
        return self.is_committing and not is_refusal


def check_outcomes(outcomes: Sequence[object], requests: Sequence[object]) -> None:
    """Refuse to commit a batch whose operation did not return one outcome for each request."""
    if len(outcomes) != len(requests):
        raise _OutcomesMissingError(f"{len(outcomes)} outcomes of {len(requests)} requests")


class _OutcomesMissingError(Exception): ...
