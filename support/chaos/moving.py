"""Moves the second cell to and fro between two servers while everything fails, and kills whoever moves it at times."""

from __future__ import annotations

import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Final

from support.chaos.cell_load import NAME, NUMBER
from support.chaos.servers import AWAY, CellPlaces
from support.installation import PIXCONNECT, ROOT, run_verb
from support.whole_installation import WholeInstallation

_PAUSE_S: Final = (15.0, 60.0)
_KILLED: Final = 0.4
"""How many of the tries are killed, if they last so long."""
_KILLED_AFTER_S: Final = (0.5, 12.0)
_TRY_TIMEOUT_S: Final = 90.0
"""Who hangs so long is killed too: an operator would not wait longer."""
_AGAIN_AFTER_S: Final = 1.0
_CANNOT_GO_ON: Final = "the copy of a table cannot go on"


class Mover:
    """Whoever moves the cell, again and again until it is stopped; what was begun is brought to its end.

    Attributes:
        counts: Moves that were done, and what came of the tries.
    """

    def __init__(
        self, service: WholeInstallation, places: CellPlaces, chance: Random, tell: Callable[[str], None]
    ) -> None:
        self._service, self._places, self._chance, self._tell = service, places, chance, tell
        self._is_over, self._is_left = threading.Event(), threading.Event()
        self._found: list[str] = []
        self.counts: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Begin no other move, and leave that which was begun."""
        self._is_over.set()
        self._is_left.set()

    def end(self, patience_s: float) -> list[str]:
        """Let it end its move, now that everything is mended; what was found."""
        self._is_over.set()
        self._thread.join(patience_s)
        if self._thread.is_alive():
            self._found.append(f"the cell never came to its other server: {dict(self.counts)}")
        return self._found

    def _run(self) -> None:
        while not self._is_over.wait(self._chance.uniform(*_PAUSE_S)):
            if self._empties():
                with suppress(*AWAY, AssertionError):
                    self._move()

    def _move(self) -> None:
        places = self._places
        places.is_moving = True
        began_s = time.monotonic()
        while not self._try():
            if self._is_left.wait(_AGAIN_AFTER_S):
                return
        places.turn()
        places.is_moving = False
        self._service.other_cells[NUMBER] = places.current.cell_url
        self.counts["cell moved"] += 1
        self._tell(f"the cell has moved to {places.current.home.name} in {time.monotonic() - began_s:.1f} s")

    def _try(self) -> bool:
        """Run the verb once; whether it has ended well."""
        words = ("cell", "move", NAME, "--to", self._places.other.address)
        # In the end nobody is killed any more, so that it comes to its end.
        dies = not self._is_over.is_set() and self._chance.random() < _KILLED
        running = subprocess.Popen(
            (*PIXCONNECT, *words),
            cwd=ROOT,
            env=self._service.installation.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            _, said = running.communicate(timeout=self._chance.uniform(*_KILLED_AFTER_S) if dies else _TRY_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            running.kill()
            running.communicate()
            self.counts["mover killed"] += 1
            return False
        self.counts[f"cell move {running.returncode}"] += 1
        # One in a line of its log is the driver's, which tries again.
        if any(line.startswith("Traceback") for line in said.splitlines()):
            self._found.append(f"cell move fails: {said[-800:]}")
        if _CANNOT_GO_ON in said:
            self._take_back()
        if running.returncode:
            self._tell(f"cell move ends with {running.returncode}: {said.strip()[-300:]}")
        return running.returncode == 0

    def _take_back(self) -> None:
        """As the verb says, before it is begun again."""
        while (done := run_verb(self._service.installation.home, "cell", "move", NAME, "--cancel")).returncode:
            if self._is_left.wait(_AGAIN_AFTER_S):
                return
            self._tell(f"cell move --cancel ends with {done.returncode}: {done.stderr.strip()[-300:]}")
        while not self._empties():
            if self._is_left.wait(_AGAIN_AFTER_S):
                return
        self.counts["move taken back"] += 1

    def _empties(self) -> bool:
        try:
            self._places.other.make_empty()
        except (*AWAY, AssertionError):
            return False
        return True
