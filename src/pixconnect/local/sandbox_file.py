"""``sandbox.json`` in the home: scripts read it to use the sandbox, ``prepare`` reads it to write it again."""

from pathlib import Path

import msgspec
from msgspec import Struct

from pixconnect.config import DEMONSTRATION_FILE

NAME = DEMONSTRATION_FILE


class SandboxFile(Struct, frozen=True, kw_only=True):
    """The names of the fields are part of our interface."""

    base_url: str
    auth_url: str
    client_id: str
    client_secret: str
    holder_id: str
    pix_keys: list[str]
    """The holder's keys, one of each type."""
    console_url: str


class Prepared(Struct, frozen=True, kw_only=True):
    """The report of ``prepare`` to ``run``."""

    steps_count: int
    """Those that were applied now."""
    sandbox_file: SandboxFile | None
    """Only in sandbox mode; written once all parts are ready."""
    console_link_token: str = ""
    """Signs one browser in to the sandbox's console, once."""


def read(home: Path) -> SandboxFile | None:
    """The file of an earlier start; ``None`` if there is none that can be read."""
    try:
        return msgspec.json.decode((home / NAME).read_bytes(), type=SandboxFile)
    except (OSError, msgspec.DecodeError):
        return None


def encode(file: SandboxFile) -> bytes:
    return msgspec.json.format(msgspec.json.encode(file)) + b"\n"
