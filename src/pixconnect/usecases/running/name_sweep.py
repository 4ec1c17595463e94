"""Compares what the home cell says of another cell's keys and accounts with that cell, which decides.

::

    the home cell says, the cell has none     forgotten, ``FORGOTTEN_AFTER`` the claim: a removal, or one who died on the way
    the cell has, the home cell says nothing  claimed anew: the home cell was put back, or a commit came very late
    the cell has, another one has it too      a critical line in the log, each time: a person has to take one away
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, get_args

import structlog

from pixconnect.domain.frame.cell import HOME
from pixconnect.foundation.pool import Pool
from pixconnect.store.running import name_cell as name_store
from pixconnect.store.running.name_cell import NameKind
from pixconnect.usecases.frame.lone_write import write_alone
from pixconnect.usecases.frame.name_claim import FORGOTTEN_AFTER
from pixconnect.usecases.money.holder import GIVEN_AGAIN_AFTER
from pixconnect.usecases.money.incoming import REFUSALS_FORGOTTEN_MAX, REFUSALS_KEPT_FOR

PAGE_MAX: Final = 1000
_KINDS: Final[tuple[NameKind, ...]] = get_args(NameKind)
_Comparison = tuple[Callable[[int, Pool, NameKind, str], Awaitable[list[str]]], NameKind]
_log = structlog.get_logger(__name__)


async def forget_former_cells(home: Pool) -> None:
    """Forget which cells keys led to before, once no rail reports again what came then; housekeeping does it at home."""
    while await name_store.forget_former(home, REFUSALS_KEPT_FOR, REFUSALS_FORGOTTEN_MAX) == REFUSALS_FORGOTTEN_MAX:
        pass


class NameSweep:
    """One process's: it goes on where its last round ended, and begins anew once all of a cell was compared.

    Args:
        home: The home cell's connections.
        forgotten_after: How long a claim is kept that the cell has not used.
        page_max: Names that are compared at once.
    """

    def __init__(self, home: Pool, forgotten_after: timedelta = FORGOTTEN_AFTER, page_max: int = PAGE_MAX) -> None:
        self._home = home
        self._forgotten_after = forgotten_after
        self._page_max = page_max
        self._left: dict[int, dict[_Comparison, str]] = {}
        """For each cell the comparisons of this pass that have not come to their end, with the last name of each."""

    async def sweep(self, number: int, pool: Pool) -> bool:
        """Compare some names of a cell; answers whether there are more.

        Args:
            pool: That cell's connections.
        """
        left = self._left.pop(number, None) or {
            (compare, kind): "" for kind in _KINDS for compare in (self._forget, self._claim)
        }
        for (compare, kind), after in list(left.items()):
            names = await compare(number, pool, kind, after)
            # A page that is not full is the last one.
            if len(names) < self._page_max:
                del left[compare, kind]
            else:
                left[compare, kind] = names[-1]
        self._left[number] = left
        return bool(left)

    async def _forget(self, number: int, pool: Pool, kind: NameKind, after: str) -> list[str]:
        # Read before the cell is asked: whoever claims after that changes the instant, and nothing is forgotten.
        page = await name_store.page_claimed(self._home, kind, number, after, self._page_max)
        names = [each.name for each in page]
        wanted = await name_store.keep_wanted(pool, kind, names, GIVEN_AGAIN_AFTER)
        lost = [each for each in page if each.name not in wanted]
        await name_store.forget(self._home, kind, number, lost, self._forgotten_after)
        return names

    async def _claim(self, number: int, pool: Pool, kind: NameKind, after: str) -> list[str]:
        owners = await name_store.page_names(pool, kind, after, self._page_max)
        said = await name_store.find_cells(self._home, kind, list(owners))
        for name, holder_id in owners.items():
            if said.get(name) == number:
                continue
            async with write_alone(self._home) as connection:
                is_claimed = await name_store.claim(connection, kind, name, number)
            if not is_claimed:
                # Names are people's, and stand in no log.
                other = said.get(name, HOME)
                _log.critical("a name leads to holders of two cells", kind=kind, holder_id=holder_id, other_cell=other)
        return list(owners)
