"""Reads at a standby for lists that may be slightly old, if the standby's age is known; otherwise at the primary.

::

    primary: records its clock ───────── each second, with its server's identity ────────┐
    standby: shows the last record ───── is it a standby, of that server, and how old? ──┴─► a read goes there
                └── too old, gone, promoted, of another server, cancelled there ──────────► the primary answers

A connection is checked before its first use, and again once its last check is older than allowed, since a name may lead to
several standbys. So no result is older than that. PostgreSQL's own timestamp of the last transaction would not do: it stands
still without writes, and some providers do not have it.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final, Literal, TypeVar

import structlog

from pixconnect.kernel.tables import installation as installation_store
from pixconnect.kernel.tables.installation import BEAT_EVERY_S, Heartbeat
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import Clock
from pixconnect.platform.database_failure import DATABASE_BUSY, DATABASE_FAILED
from pixconnect.platform.pool import Connection, Pool

AGE_MAX_S: Final = 10  # of the standby's tables
ANSWER_TIMEOUT_S: Final = 3.0  # how long a read may take at the standby before it moves to the primary
LOOK_TIMEOUT_S: Final = 2.0
GOOD_LOOKS_MIN: Final = 3  # successful checks in a row before a standby is used again, so that a flapping one logs little

Answer = TypeVar("Answer")
Outcome = Literal["answered", "not_used", "missing", "cancelled", "failed"]
_log = structlog.get_logger(__name__)


class StandbyRefusedError(ConnectionError):
    """The server must not be read from; the message states the reason."""


class Standby:
    """One process's record of the standby that it reads from.

    Attributes:
        why_not: Why reads go to the primary; ``None`` while the standby is used.
        age_s: The age of its tables at the last check; ``None`` if unknown.
        outcomes: The number of reads by outcome, for the metrics.
    """

    def __init__(self, primary: Pool, clock: Clock, *, age_max_s: float) -> None:
        self._primary = primary
        self._monotonic_s = clock.monotonic_s
        self._age_max_s = age_max_s
        self._pool: Pool | None = None
        self._shown: Heartbeat | None = None  # the primary's last record, and when it was read
        self._shown_s = 0.0
        self._good_looks = GOOD_LOOKS_MIN - 1
        self.why_not: str | None = "it was not looked at yet"
        self.age_s: float | None = None
        self.outcomes: Counter[Outcome] = Counter()

    @property
    def pool(self) -> Pool:
        """Its connections, each checked recently enough."""
        return errors.require(self._pool, "it was opened")

    def use(self, pool: Pool) -> None:
        """Read by these connections, which call ``check``."""
        self._pool = pool

    async def check(self, connection: Connection) -> None:
        """Raise ``StandbyRefusedError`` unless the connection leads to a usable standby; called before each use."""
        if self._monotonic_s() - connection.known_s <= self._age_max_s:  # type: ignore[union-attr]  a standby's has it
            return
        try:
            await self._look_through(connection)
        except BaseException:
            # The driver closes it now, and would wait for a server that may hang.
            connection.terminate()
            raise

    async def _look_through(self, connection: Connection) -> float:
        """Read how old a connection's tables are, and store that; raises ``StandbyRefusedError``."""
        found = await installation_store.find_heartbeat(connection)
        asked_s = self._monotonic_s()
        age_s = self._measure_age(found, asked_s)
        if age_s > self._age_max_s:
            raise StandbyRefusedError(f"its tables are {age_s:.0f} s old: at most {self._age_max_s:.0f} s are allowed")
        connection.note_known(asked_s - age_s)  # type: ignore[union-attr]  a standby's has it
        return age_s

    def _measure_age(self, found: Heartbeat | None, asked_s: float) -> float:
        shown = self._shown
        if found is None:
            raise StandbyRefusedError("it has no installation yet")
        if not found.is_standby:
            raise StandbyRefusedError("it is no standby: it was promoted, or its address leads to the primary")
        if shown is None:
            raise StandbyRefusedError("the primary has not been seen yet")
        # It follows a server that was replaced, or lags behind the record of the one that took over.
        if found.noted != shown.noted or found.beat_at is None:
            raise StandbyRefusedError("its tables are not those of the primary that we know")
        # Both instants are of the primary's clock; our own measures the time since that clock was reported.
        return max(0.0, (shown.now - found.beat_at).total_seconds() + asked_s - self._shown_s)

    async def keep_watch(self) -> None:
        """Record the primary's clock and check the standby, each second until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(BEAT_EVERY_S)

    async def look(self) -> None:
        asked_s = self._monotonic_s()
        try:
            async with asyncio.timeout(LOOK_TIMEOUT_S), self._primary.acquire() as connection:
                self._shown, self._shown_s = await installation_store.make_heartbeat(connection), asked_s
        except (*DATABASE_FAILED, errors.ServiceUnavailable) as error:
            # The record of the primary grows old meanwhile, and with it the standby.
            _log.debug("the primary's clock is not noted", reason=type(error).__name__)
        try:
            async with asyncio.timeout(LOOK_TIMEOUT_S), self.pool.acquire() as connection:
                self.age_s = await self._look_through(connection)
        except (*DATABASE_FAILED, errors.ServiceUnavailable) as error:
            self._leave(error)
        else:
            self._good_looks += 1
            if self.why_not is not None and self._good_looks >= GOOD_LOOKS_MIN:
                self.why_not = None
                _log.info("the standby is read from", age_s=round(self.age_s, 1))

    def _leave(self, error: BaseException) -> None:
        """Read at the primary until the standby has been good for a while; logged once."""
        self._good_looks, self.age_s = 0, None
        reason = str(error) if isinstance(error, StandbyRefusedError) else f"it gives no answer: {type(error).__name__}"
        was_used, self.why_not = self.why_not is None, reason
        if was_used:
            _log.warning("the standby is not read from, and the primary instead", reason=reason)

    async def read(self, there: Callable[[], Awaitable[Answer]], here: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return the result of ``there``, which reads at the standby, or else of ``here`` at the primary."""
        if self.why_not is not None:
            self.outcomes["not_used"] += 1
            return await here()
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                answer = await there()
        except errors.NotFound:
            # The record may be newer than the standby.
            self.outcomes["missing"] += 1
        except DATABASE_BUSY:
            # Replay at a standby may remove rows that a read still needs.
            self.outcomes["cancelled"] += 1
        except DATABASE_FAILED:
            # The standby's monitor decides whether to leave it: no request waits for that, or logs it.
            self.outcomes["failed"] += 1
        else:
            self.outcomes["answered"] += 1
            return answer
        return await here()


async def check_standby(standby: Standby) -> None:
    """Health check: reads use the standby if the operator configured one."""
    if standby.why_not is not None:
        raise errors.ServiceUnavailable(f"the standby is not read from, and the primary instead: {standby.why_not}")
