"""Plant defects one by one in a copy of the service, and report by which seed chaos finds each (``make chaos-defects``).

A defect names the faults that it needs, and they come again and again, so finding it does not depend on luck. ``none``
is a copy without any defect, with the faults of all of them, in which nothing may be found.

PIXCONNECT_CHAOS_DEFECT names a single defect, PIXCONNECT_CHAOS_SEEDS the seeds separated by commas, and
PIXCONNECT_CHAOS_MINUTES the minutes for each. The exit status is 1 if a defect was not found, or anything was found
without one.
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

_UNDECIDED: Final = (UNREST, NOT_LOOKED)  # beginnings of findings that do not show a cause
_NONE: Final = "none"
_PAUSE_S: Final = 0.03
_PATIENCE_S: Final = 45.0  # the patience with installations that do not come to rest, in seconds
FILE: Final = ROOT / "tests" / "vectors" / "defects.toml"


class Defect(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change in one file that breaks a promise, as pairs of old and new text.

    Attributes:
        faults: The faults to inject while searching: time within the cycle, kind, target, duration.
        every_s: The length of a cycle.
        policy: Settings of the service.
        weights: The frequencies of the callers' acts that differ from the default.
        is_there: Search with the money at an institution.
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
        """The content of the file with the defect.

        Raises:
            ValueError: An old text does not occur exactly once, because the file has changed.
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
    """A copy without a defect, with the faults of all of them in turn: faults alone must not produce findings."""
    defects = [defect for defect in read_defects() if not defect.is_there]
    faults: list[tuple[float, FaultKind, str, float]] = []
    began_s = 0.0
    for defect in defects:
        faults += [(began_s + at_s, kind, target, lasts_s) for at_s, kind, target, lasts_s in defect.faults]
        began_s += defect.every_s
    policy = {name: value for defect in defects for name, value in defect.policy.items()}
    return Defect(name=_NONE, breaks="nothing", file=defects[0].file, changes=(), faults=faults, every_s=began_s, policy=policy)


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
    """The result of the search for a defect, with the findings of its last run."""

    defect: Defect
    seed: int
    took_s: float
    findings: Sequence[str]

    @property
    def judges(self) -> list[str]:
        """The judges that found it. Unrest alone does not count, because it also occurs on a busy machine."""
        return sorted({each.partition(":")[0] for each in self.findings if not each.startswith(_UNDECIDED)})

    def says(self) -> str:
        by = f"found by {', '.join(self.judges)}" if self.judges else "not found"
        counted = f"{len(self.findings)} findings: {_sum_up(self.findings)}" if self.findings else "no findings"
        return f"{self.defect.name}: {by} after {self.took_s:.0f} s, seed {self.seed}; {counted}"


def find(defect: Defect, seeds: Sequence[int], seconds: float) -> Search:
    began_s = time.monotonic()
    # The run is long enough for each of its faults to occur once.
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
            except Exception as error:  # noqa: BLE001  after any failure the history was not judged
                findings = [f"{UNREST}: {type(error).__name__}: {error}"]
            search = Search(defect=defect, seed=seed, took_s=time.monotonic() - began_s, findings=findings)
            if search.judges:
                break
    return search


def _sum_up(findings: Sequence[str]) -> str:
    """One finding of each kind, those that show a cause first."""
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
