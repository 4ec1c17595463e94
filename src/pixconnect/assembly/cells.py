"""Opens the cells beside the home cell, each by a task of its own: one that is away keeps nobody waiting.

::

    table cell of the home cell ──► a task for each ──► opened, compared with its row ──► served until the process stops, or
     read every ``LOOK_EVERY_S``,         ▲                     │ away, or not yet        its row names another address
     and when somebody asks for           │                     │ as it must be
     one that is not known                └─────────────────────┘ again after ``AGAIN_AFTER_S``

A cell at another address than before is opened there by a task of its own, while the former one comes to its end. Where there
is one cell, the table is empty and that is all.
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
from pixconnect.assembly.keep_running import keep_running, running_beside
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.secret_box import SealBroken
from pixconnect.domain.running.known_cell import SEEN_WITHIN_S, KnownCell
from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.foundation.schema_history import SchemaError
from pixconnect.store.running import cell as cell_store
from pixconnect.usecases.frame.cells import UnreachableCells
from pixconnect.usecases.running.installation import InstallationError
from pixconnect.usecases.running.known_cells import refuse_other_cell

LOOK_EVERY_S: Final = SEEN_WITHIN_S
LOOK_WHILE_MOVING_S: Final = 0.2
"""Where a cell is being moved, its holders wait for this."""
LOOK_EVERY_MIN_S: Final = 1.0
"""However many ask for cells that are not known."""
AGAIN_AFTER_S: Final = 1.0
READY_WITHIN_S: Final = 3.0
"""How long a process that starts waits for the cells that it finds: those that are there take a moment."""
ENDED_WITHIN_S: Final = 5.0

_NOT_NOW: Final = (*DATABASE_FAILED, errors.ServiceUnavailable, InstallationError, SchemaError, SealBroken)
_log = structlog.get_logger(__name__)


class OpenedCell(Struct, frozen=True, kw_only=True):
    known: KnownCell
    base: Base
    report_ready: Callable[[], None]
    """To be called once it is served."""
    stop: asyncio.Event
    """To be served until this is set: the process stops, or the cell is elsewhere by now."""

    @property
    def number(self) -> int:
        return self.known.number


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
    # The home cell may be away just now: who took itself for alone would refuse what is another cell's.
    away.are_known = False
    others = _Others(home, name, away, serve, stop, plans_once=plans_once)
    try:
        async with running_beside(others.keep_looking, others.leave_at_stop):
            await others.wait_until_ready()
            yield
    finally:
        stop.set()
        await others.end()


class _Serving:
    """A cell at one address, for as long as it is to be served there."""

    def __init__(self, known: KnownCell) -> None:
        self.known = known
        self.leaving = asyncio.Event()
        self.is_served = False
        self.base: Base | None = None

    def is_at(self, known: KnownCell) -> bool:
        return self.known.address == known.address


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
        self._servings: dict[int, _Serving] = {}
        self._tasks: dict[_Serving, asyncio.Task[None]] = {}
        self._ready: dict[int, asyncio.Event] = {}
        self._has_looked = asyncio.Event()

    async def keep_looking(self) -> None:
        """Serve cells as they are added, and where they are, until cancelled."""
        is_moving = False
        while True:
            self._away.begin_look()
            try:
                known_cells = await cell_store.list_all(self._home.context.pool)
                is_moving = any(known.state == "MOVING" for known in known_cells)
                for known in known_cells:
                    self._note(known)
                self._away.end_look([known.number for known in known_cells])
            except (*DATABASE_FAILED, errors.ServiceUnavailable) as error:
                _log.debug("the cells are not known", reason=type(error).__name__)
            self._has_looked.set()
            if is_moving:
                await asyncio.sleep(LOOK_WHILE_MOVING_S)
                continue
            await asyncio.sleep(LOOK_EVERY_MIN_S)
            if not self._away.are_known:
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S - LOOK_EVERY_MIN_S):
                    await self._away.is_wanted.wait()

    async def wait_until_ready(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(READY_WITHIN_S):
                await self._has_looked.wait()
                for each in self._ready.values():
                    await each.wait()

    async def leave_at_stop(self) -> None:
        """Leave all cells once the process is told to stop."""
        await self._stop.wait()
        self._leave_all()

    def _leave_all(self) -> None:
        for each in self._servings.values():
            each.leaving.set()

    async def end(self) -> None:
        """Leave all, and wait until what is served has ended in order; what hangs is cut off."""
        self._leave_all()
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks.values(), timeout=ENDED_WITHIN_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def _note(self, known: KnownCell) -> None:
        # Nobody may use one whose tables are being made.
        if not known.is_open or self._stop.is_set():
            return
        before = self._servings.get(known.number)
        if before is not None:
            if before.is_at(known):
                return
            _log.info("a cell is at another address", cell=known.name)
            self._leave(before)
        self._away.numbers.add(known.number)
        self._ready.setdefault(known.number, asyncio.Event())
        serving = self._servings[known.number] = _Serving(known)
        task = self._tasks[serving] = asyncio.create_task(
            keep_running(partial(self._keep_serving, serving)), name=f"cell {known.name}"
        )
        task.add_done_callback(lambda _: self._tasks.pop(serving))

    def _leave(self, serving: _Serving) -> None:
        serving.leaving.set()
        # Nobody has asked it for anything yet, and it may wait long for a server that is gone.
        if not serving.is_served:
            self._tasks[serving].cancel()

    async def _keep_serving(self, serving: _Serving) -> None:
        said, name = None, serving.known.name
        while not serving.leaving.is_set():
            try:
                await self._open_and_serve(serving)
            except _NOT_NOW as error:
                reason = str(error) if isinstance(error, InstallationError | SchemaError) else type(error).__name__
                # Tried each second for as long as it takes: the log has one line of each reason.
                if reason != said:
                    said = reason
                    _log.warning("a cell is away, and its holders are not served", cell=name, reason=reason)
            except Exception as error:  # noqa: BLE001  as it says
                # A defect that one cell meets ends none of the others.
                if repr(error) != said:
                    said = repr(error)
                    _log.exception("a cell is not served", cell=name)
            else:
                said = None
            finally:
                serving.is_served = False
                # Where it is by now it may be served already.
                if self._servings[serving.known.number] is serving:
                    self._away.numbers.add(serving.known.number)
            # It may be at another address by now.
            self._away.is_wanted.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(AGAIN_AFTER_S):
                    await serving.leaving.wait()

    async def _open_and_serve(self, serving: _Serving) -> None:
        known = serving.known
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
            serving.is_served = True
            self._lead_former_to(serving)
            self._away.numbers.discard(known.number)
            self._ready[known.number].set()
            _log.info("a cell is served", cell=known.name)

        async with opening as base:
            serving.base = base
            opened = OpenedCell(known=known, base=base, report_ready=note_ready, stop=serving.leaving)
            await self._serve(opened)

    def _lead_former_to(self, serving: _Serving) -> None:
        # Where the cell has moved its former database is closed. What was asked there and is not answered yet, a lost COMMIT
        # too, comes to its end where it is by now; that this is the same cell was just looked at.
        for former in self._tasks:
            if former is not serving and former.known.number == serving.known.number and former.base is not None:
                url = settings_of(self._home.settings, serving.known).database_url
                former.base.context.pool.lead_to(url)
