"""Calls of Python, counted: a cost that is the same on each machine."""

import sys
from types import FrameType


class CallCounter:
    """Counts the calls inside ``with``, those of functions written in C too, or only the calls of one C function."""

    def __init__(self, name: str | None = None) -> None:
        self.count = 0
        self._name = name

    def __enter__(self) -> "CallCounter":
        self._before = sys.getprofile()
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        if self._name is None:
            self.count += event in {"call", "c_call"}
        else:
            self.count += event == "c_call" and getattr(argument, "__name__", None) == self._name
