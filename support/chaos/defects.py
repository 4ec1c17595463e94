"""``make chaos-defects``: plants one defect after the other in a copy of the service, and says by which seed chaos finds it.

A defect says which faults it needs, again and again, so that nobody waits for luck; ``none`` is a copy without any, in which
nothing may be found by the faults of all of them. PIXCONNECT_CHAOS_DEFECT names a single one; PIXCONNECT_CHAOS_SEEDS are the
seeds that are tried, with commas between them, and PIXCONNECT_CHAOS_MINUTES is for how long each. The exit status is 1
where one was not found, or where something was found in a copy without any.
"""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from support.chaos.judging import NOT_LOOKED
from support.chaos.run import UNREST, Options, run
from support.chaos.schedule import Cycle, FaultKind, repeat
from support.chaos.there import run_there
from support.installation import ROOT

_UNDECIDED: Final = (UNREST, NOT_LOOKED)
"""What findings begin with that say nothing of what is wrong."""
_NONE: Final = "none"
_PAUSE_S: Final = 0.03
_PATIENCE_S: Final = 45.0
"""Nobody waits longer for what does not come to rest."""
FILE: Final = ROOT / "tests" / "vectors" / "defects.toml"


class Defect(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is changed in one file, each an old text and a new one, and what that breaks.

    Attributes:
        faults: What fails while it is looked for: when in each cycle, what, of what, for how long.
        every_s: How long a cycle is.
        policy: Periods of the service.
        weights: How often callers choose their acts, where that is not as usual.
        is_there: It is looked for where the money lies at an institution.
    """

    name: str
    breaks: str
    file: str
    changes: Sequence[tuple[str, str]]
    faults: Cycle = ()
    every_s: float = 6.0
    policy: Mapping[str, int] = {}
    weights: Mapping[str, int] = {}
    is_there: bool = False

    def apply(self, text: str) -> str:
        """The file with the defect in it.

        Raises:
            ValueError: An old text does not stand in it once: the file has changed.
        """
        for old, new in self.changes:
            if text.count(old) != 1:
                raise ValueError(f"{self.name}: {text.count(old)} times in {self.file}: {old}")
            text = text.replace(old, new)
        return text


class _Defects(Struct, frozen=True):
    defects: list[Defect]


def read_defects() -> list[Defect]:
    return msgspec.toml.decode(FILE.read_bytes(), type=_Defects).defects


def without_any() -> Defect:
    """No defect, and the faults of all of them, one cycle after the other: nothing is found by faults alone."""
    defects = [defect for defect in read_defects() if not defect.is_there]
    faults: list[tuple[float, FaultKind, str, float]] = []
    began_s = 0.0
    for defect in defects:
        faults += [(began_s + at_s, kind, target, lasts_s) for at_s, kind, target, lasts_s in defect.faults]
        began_s += defect.every_s
    policy = {name: value for defect in defects for name, value in defect.policy.items()}
    return Defect(
        name=_NONE, breaks="nothing", file=defects[0].file, changes=(), faults=faults, every_s=began_s, policy=policy
    )


@contextmanager
def planted(defect: Defect) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="pixconnect-defect-"))
    try:
        shutil.copytree(ROOT / "src" / "pixconnect", folder / "pixconnect")
        file = folder / "pixconnect" / defect.file
        file.write_text(defect.apply(file.read_text(encoding="utf-8")), encoding="utf-8")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Search(Struct, frozen=True, kw_only=True):
    """How looking for a defect ended; the last run says what it was found by."""

    defect: Defect
    seed: int
    took_s: float
    findings: Sequence[str]

    @property
    def judges(self) -> list[str]:
        """Who has found it; of what did not come to rest on a busy machine nobody knows whether the defect is the cause."""
        return sorted({each.partition(":")[0] for each in self.findings if not each.startswith(_UNDECIDED)})

    def says(self) -> str:
        by = f"found by {', '.join(self.judges)}" if self.judges else "not found"
        counted = f"{len(self.findings)} findings: {_sum_up(self.findings)}" if self.findings else "no findings"
        return f"{self.defect.name}: {by} after {self.took_s:.0f} s, seed {self.seed}; {counted}"


def find(defect: Defect, seeds: Sequence[int], seconds: float) -> Search:
    began_s = time.monotonic()
    # Each of its faults comes once at least.
    seconds = max(seconds, defect.every_s)
    with planted(defect) as source:
        for seed in seeds:
            options = Options(
                seed=seed,
                seconds=seconds,
                pause_s=_PAUSE_S,
                source=source,
                policy=defect.policy,
                weights=defect.weights,
                faults=repeat(defect.faults, defect.every_s, seconds),
                is_brief=True,
                patience_s=_PATIENCE_S,
            )
            try:
                findings = (run_there if defect.is_there else run)(options).findings
            except Exception as error:  # noqa: BLE001  whatever it was: nothing was judged, and so nothing found
                findings = [f"{UNREST}: {type(error).__name__}: {error}"]
            search = Search(defect=defect, seed=seed, took_s=time.monotonic() - began_s, findings=findings)
            if search.judges:
                break
    return search


def _sum_up(findings: Sequence[str]) -> str:
    """One of each kind; that something is not at rest says less than what else is wrong."""
    kinds: dict[str, str] = {}
    for finding in sorted(findings, key=lambda finding: finding.startswith(UNREST)):
        kinds.setdefault(finding[:24], finding[:240])
    return " | ".join(list(kinds.values())[:5])


def main() -> int:
    only = os.environ.get("PIXCONNECT_CHAOS_DEFECT")
    seeds = [int(seed) for seed in (os.environ.get("PIXCONNECT_CHAOS_SEEDS") or "839,2005").split(",")]
    seconds = 60 * float(os.environ.get("PIXCONNECT_CHAOS_MINUTES") or 0.67)
    is_as_expected = True
    for defect in [without_any()] if only == _NONE else read_defects():
        if only in {None, _NONE, defect.name}:
            search = find(defect, seeds, seconds)
            is_as_expected &= bool(search.judges) == bool(defect.changes)
            print(search.says(), flush=True)  # noqa: T201  a program for people
    return 0 if is_as_expected else 1


if __name__ == "__main__":
    sys.exit(main())
