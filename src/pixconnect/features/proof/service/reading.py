"""Where holders' books are read: at a standby that is at least as new as the run, or else at the primary.

The run writes at the primary when it begins or goes on. A standby with this row is of the same installation, and has all
earlier rows: so its findings are as complete as the primary's. They are checked again at the primary, and count only if they
persist.
"""

from __future__ import annotations

import asyncio
from datetime import datetime

import structlog

from pixconnect.features.proof.rules.rule import Finding, Rule
from pixconnect.features.proof.tables import look as look_store
from pixconnect.features.proof.tables import run as run_store
from pixconnect.features.proof.tables.look import HolderRange
from pixconnect.features.proof.tables.run import Run
from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.pool import Connection

LOOK_EVERY_S = 0.2
_log = structlog.get_logger(__name__)


class BookReading:
    """Asks rules about holders for one run."""

    def __init__(self, primary: Connection, standby: Connection | None) -> None:
        self._primary = primary
        self._standby = standby

    async def follow(self, run: Run, within_s: float) -> None:
        """Wait for the standby to have what the run has just written; one that takes longer is not read from."""
        if self._standby is None:
            return
        noted_at = await run_store.read_seen_at(self._primary, run)
        try:
            async with asyncio.timeout(within_s):
                while not await run_store.has_seen(self._standby, run, noted_at):  # noqa: ASYNC110  there is no notification
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            self._leave(f"after {within_s:.0f} s it does not have the beginning of this run")
        except DATABASE_FAILED as error:
            self._leave(f"it gives no answer: {type(error).__name__}")

    async def ask(self, rule: Rule, part: HolderRange | None, since: datetime | None) -> list[Finding]:
        """As ``look.ask``, at either server."""
        if self._standby is not None:
            try:
                return await look_store.ask(self._standby, rule, part, since)
            except DATABASE_FAILED as error:
                # Long reads are what it cancels first: the rest of the run would meet the same.
                self._leave(f"it gives no answer: {type(error).__name__}")
        return await look_store.ask(self._primary, rule, part, since)

    def _leave(self, reason: str) -> None:
        self._standby = None
        _log.warning("the standby is not read from, and the primary instead", reason=reason)
