"""Loads the files that operators name on the command line: statements, and evidence."""

from __future__ import annotations

from pathlib import Path

from pixconnect.cli.frame.failures import CommandError
from pixconnect.named_file import read_named_file


def load_file(file: Path, length_max: int) -> bytes:
    """What is in a regular file of at most so many octets.

    Raises:
        CommandError: It cannot be read, is something else, or is longer.
    """
    try:
        return read_named_file(file, length_max)
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}") from error
