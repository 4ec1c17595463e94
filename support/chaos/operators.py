"""Other users beside the load: operators and a holder at the command line, and a visitor of the console."""

import threading
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Final

import httpx2

from support.installation import Installation, run_verb

_VERBS: Final[Sequence[Sequence[str]]] = (
    ("holder", "list"), ("report", "list"), ("audit", "list"), ("database", "show"), ("balance",),
    ("deposit", "1000"), ("charge", "list"),
)  # fmt: skip
"""The demonstration's holder, which the callers of the load do not use."""
_PAUSE_S: Final = (2.0, 6.0)


class Operators:
    """Runs commands until it is stopped. While faults are injected a command may fail, but with a proper message."""

    def __init__(self, installation: Installation, chance: Random) -> None:
        self._installation, self._chance = installation, chance
        self._is_over = threading.Event()
        self._found: list[str] = []
        self.counts: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()

    def end(self) -> list[str]:
        """The findings, after the last command has ended."""
        self._thread.join(300)
        return self._found

    def _run(self) -> None:
        while not self._is_over.wait(self._chance.uniform(*_PAUSE_S)):
            if self._chance.random() < 0.3:
                self._visit()
            else:
                self._act(self._chance.choice(_VERBS))

    def _act(self, words: Sequence[str]) -> None:
        ran = run_verb(self._installation.home, *words)
        self.counts[f"{' '.join(words[:2])} {ran.returncode}"] += 1
        if "Traceback" in ran.stderr:
            self._found.append(f"{' '.join(words)} fails: {ran.stderr[-800:]}")

    def _visit(self) -> None:
        """Open the sign-in page, which starts the console on its first visit."""
        address = self._installation.sandbox["console_url"]
        try:
            status = httpx2.get(address, timeout=20, trust_env=False, follow_redirects=True).status_code
        except httpx2.TransportError:
            status = 0
        self.counts[f"console {status or 'unanswered'}"] += 1
        if status == 500:
            self._found.append("the console fails")
