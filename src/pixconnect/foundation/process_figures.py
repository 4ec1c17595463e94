"""What this process uses of its machine: memory, cores, garbage collections, tasks."""

import asyncio
import gc
import os
import platform
import resource
import sys
from pathlib import Path

from msgspec import Struct

_MIB = 1024 * 1024
_STATM = Path("/proc/self/statm")


class ProcessFigures(Struct, frozen=True, kw_only=True):
    runtime: str
    """Such as ``python 3.11.7``."""
    resident_mib: int
    """At least 1, as ``peak_resident_mib``."""
    peak_resident_mib: int
    cores_count: int
    collections_count: int
    """Of all generations."""
    tasks_count: int


def read_process_figures() -> ProcessFigures:
    """Read the figures; an event loop must be running."""
    # macOS counts in bytes, all others in KiB.
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // _MIB
    resident = _read_resident() or peak
    return ProcessFigures(
        runtime=f"python {platform.python_version()}",
        resident_mib=max(1, resident),
        peak_resident_mib=max(1, resident, peak),
        cores_count=os.cpu_count() or 1,
        collections_count=sum(generation["collections"] for generation in gc.get_stats()),
        tasks_count=len(asyncio.all_tasks()),
    )


def _read_resident() -> int | None:
    try:
        pages = int(_STATM.read_text(encoding="ascii").split()[1])
    except OSError:
        return None
    return pages * resource.getpagesize() // _MIB
