"""Output for people: progress and results on standard output, complaints of one line on standard error."""

import os
import sys
from typing import TextIO


def say(text: str) -> None:
    _write(sys.stdout, text)


def complain(text: str) -> None:
    _write(sys.stderr, f"pixconnect: {' '.join(text.split())}")


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(f"{text}\n")
        stream.flush()
    except BrokenPipeError:
        # A reader that went away, such as `head`, is no reason to stop; Python would complain again on exit.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
