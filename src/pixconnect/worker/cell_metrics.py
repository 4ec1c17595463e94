"""What a worker process measures in each cell, on one page: other cells' values have the label ``cell``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from msgspec import structs

from pixconnect.foundation.metrics import Measured, Read, Value
from pixconnect.usecases.frame.cells import ANSWER_WITHIN_S, NO_ANSWER, answer_in_time
from pixconnect.usecases.running.call_metrics import CALLS

_OF_THE_PROCESS: Final = frozenset({CALLS.name})
"""What lies outside is reached once for all cells, and counted with the home cell."""


class CellMetrics:
    def __init__(self, answer_within_s: float = ANSWER_WITHIN_S) -> None:
        self._answer_within_s = answer_within_s
        self._others: dict[str, Read] = {}

    @asynccontextmanager
    async def added(self, name: str, read: Read) -> AsyncGenerator[None]:
        """Measure a cell too while the block runs."""
        self._others[name] = read
        try:
            yield
        finally:
            # At another address it may be measured already.
            if self._others.get(name) is read:
                del self._others[name]

    def with_home(self, read: Read) -> Read:
        """What the home cell's read answers, and beside each value those of the other cells; a silent one has none."""

        async def read_all() -> Sequence[Measured]:
            measured = await read()
            if not self._others:
                return measured
            names = sorted(self._others)
            answers = await asyncio.gather(*(self._read_in_time(self._others[name]) for name in names))
            values: dict[str, dict[str, Mapping[tuple[str, ...], Value]]] = {}
            for name, answer in zip(names, answers, strict=True):
                for one in answer:
                    values.setdefault(one.family.name, {})[name] = one.values
            return [
                one
                if one.family.name in _OF_THE_PROCESS
                else structs.replace(one, of_cells=values.get(one.family.name, {}))
                for one in measured
            ]

        return read_all

    async def _read_in_time(self, read: Read) -> Sequence[Measured]:
        try:
            return await answer_in_time(read(), self._answer_within_s)
        except NO_ANSWER:
            return ()
