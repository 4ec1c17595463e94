"""Files that an operator names: secrets, certificates, what describes an account, statements."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

LENGTH_MAX: Final = 4 * 1024 * 1024
"""Of a certificate's or a secret's file in octets: a bundle of all authorities is a part of it."""


def read_named_file(path: str | Path, length_max: int = LENGTH_MAX) -> bytes:
    """The contents of a regular file of a bounded length.

    Raises:
        OSError: It cannot be read, is something else, or is longer; ``strerror`` names the reason.
        ValueError: The name has a NUL.
    """
    # Opening a FIFO for reading waits for a writer, and a device may never end.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        with open(descriptor, "rb", closefd=False) as opened:
            content = opened.read(length_max + 1)
    finally:
        os.close(descriptor)
    if len(content) > length_max:
        raise OSError(errno.EFBIG, f"it is longer than {length_max // 1024} KiB", str(path))
    return content
