"""Opens the cells beside the home cell, each by a task of its own: one that is away keeps nobody waiting.

::

    table cell of the home cell ──► a task for each ──► opened, compared with its row ──► served until the process stops
     read every ``LOOK_EVERY_S``,         ▲                     │ away, or not yet as it must be
     and when somebody asks for           └─────────────────────┘ again after ``AGAIN_AFTER_S``
     one that is not known

Where there is one cell, the table is empty and that is all.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import partial
from typing import Final

import structlog
from msgspec import Struct

from pixconnect.adapters.system import SystemClock
from pixconnect.assembly.base import Base, open_cell_base
from pixconnect.assembly.cell_settings import settings_of
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.secret_box import SealBroken
from pixconnect.domain.running.known_cell import KnownCell
from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.foundation.schema_history import SchemaError
from pixconnect.store.running import cell as cell_store
from pixconnect.usecases.frame.cells import UnreachableCells
from pixconnect.usecases.running.installation import InstallationError
from pixconnect.usecases.running.known_cells import refuse_other_cell

LOOK_EVERY_S: Final = 5.0
LOOK_EVERY_MIN_S: Final = 1.0
"""However many ask for cells that are not known."""
AGAIN_AFTER_S: Final = 1.0
READY_WITHIN_S: Final = 3.0
"""How long a process that starts waits for the cells that it finds: those that are there take a moment."""
ENDED_WITHIN_S: Final = 5.0

_NOT_NOW: Final = (*DATABASE_FAILED, errors.ServiceUnavailable, InstallationError, SchemaError, SealBroken)
_log = structlog.get_logger(__name__)


class OpenedCell(Struct, frozen=True, kw_only=True):
    number: int
    base: Base
    report_ready: Callable[[], None]
    """To be called once it is served."""
    stop: asyncio.Event
    """To be served until this is set."""


Serve = Callable[[OpenedCell], Awaitable[None]]


@asynccontextmanager
async def open_cells(
    home: Base,
    name: str,
    away: UnreachableCells,
    serve: Serve,
    *,
    stop: asyncio.Event | None = None,
    plans_once: bool = False,
) -> AsyncGenerator[None]:
    """Serve all other cells beside the block.

    Args:
        home: The home cell's, which knows the others.
        name: The process, as PostgreSQL shows it.
        away: Is told which are not served.
        serve: Serves one; the process stops at the end of the block, or when ``stop`` is set.
        stop: ``None`` where they are served until the block has ended.
        plans_once: As in ``open_pool``.
    """
    stop = stop or asyncio.Event()
    others = _Others(home, name, away, serve, stop, plans_once=plans_once)
    looking = asyncio.create_task(others.keep_looking(), name="cells")
    try:
        await others.wait_until_ready()
        yield
    finally:
        stop.set()
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        await others.end()


class _Others:
    def __init__(
        self, home: Base, name: str, away: UnreachableCells, serve: Serve, stop: asyncio.Event, *, plans_once: bool
    ) -> None:
        self._home = home
        self._name = name
        self._away = away
        self._serve = serve
        self._stop = stop
        self._plans_once = plans_once
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._ready: dict[int, asyncio.Event] = {}
        self._has_looked = asyncio.Event()

    async def keep_looking(self) -> None:
        """Begin to serve cells as they are added, until cancelled."""
        while True:
            self._away.is_wanted.clear()
            try:
                for known in await cell_store.list_all(self._home.context.pool):
                    self._begin(known)
            except (*DATABASE_FAILED, errors.ServiceUnavailable) as error:
                _log.debug("the cells are not known", reason=type(error).__name__)
            self._has_looked.set()
            await asyncio.sleep(LOOK_EVERY_MIN_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S - LOOK_EVERY_MIN_S):
                    await self._away.is_wanted.wait()

    async def wait_until_ready(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(READY_WITHIN_S):
                await self._has_looked.wait()
                for each in self._ready.values():
                    await each.wait()

    async def end(self) -> None:
        """Wait until what is served has ended in order; what hangs is cut off."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks.values(), timeout=ENDED_WITHIN_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def _begin(self, known: KnownCell) -> None:
        # Nobody may use one whose tables are being made.
        if known.number in self._tasks or known.state != "OPEN":
            return
        self._away.numbers.add(known.number)
        self._ready[known.number] = asyncio.Event()
        self._tasks[known.number] = asyncio.create_task(self._keep_serving(known), name=f"cell {known.name}")

    async def _keep_serving(self, known: KnownCell) -> None:
        said: str | None = None
        while not self._stop.is_set():
            try:
                await self._open_and_serve(known)
            except _NOT_NOW as error:
                reason = str(error) if isinstance(error, InstallationError | SchemaError) else type(error).__name__
                # Tried each second for as long as it takes: the log has one line of each reason.
                if reason != said:
                    said = reason
                    _log.warning("a cell is away, and its holders are not served", cell=known.name, reason=reason)
            except Exception:  # noqa: BLE001  as it says
                # A defect that one cell meets ends none of the others.
                _log.exception("a cell is not served", cell=known.name)
            else:
                said = None
            finally:
                self._away.numbers.add(known.number)
            with suppress(TimeoutError):
                async with asyncio.timeout(AGAIN_AFTER_S):
                    await self._stop.wait()

    async def _open_and_serve(self, known: KnownCell) -> None:
        opening = open_cell_base(
            settings_of(self._home.settings, known),
            self._name,
            self._home.context.secret_box,
            nullcontext(self._home.shared),
            SystemClock(),
            number=known.number,
            check=partial(refuse_other_cell, known=known),
            plans_once=self._plans_once,
        )

        def note_ready() -> None:
            self._away.numbers.discard(known.number)
            self._ready[known.number].set()
            _log.info("a cell is served", cell=known.name)

        async with opening as base:
            opened = OpenedCell(number=known.number, base=base, report_ready=note_ready, stop=self._stop)
            await self._serve(opened)
