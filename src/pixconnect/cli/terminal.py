"""What people see: progress and results on standard output, complaints in one line on standard error."""

import os
import sys
from typing import TextIO


def say(text: str) -> None:
    """Write a line to standard output, at once."""
    _write(sys.stdout, text)


def complain(text: str) -> None:
    """Write one line to standard error."""
    _write(sys.stderr, f"pixconnect: {' '.join(text.split())}")


def _write(stream: TextIO, text: str) -> None:
    """Write a line; a reader that went away is no reason to stop."""
    try:
        stream.write(f"{text}\n")
        stream.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
