"""``sandbox.json`` in the home: what scripts read to use the sandbox, and what ``prepare`` reads to make it again."""

from pathlib import Path

import msgspec
from msgspec import Struct

from pixconnect.config import DEMONSTRATION_FILE

NAME = DEMONSTRATION_FILE


class SandboxFile(Struct, frozen=True, kw_only=True):
    """The names of the fields are promised."""

    base_url: str
    auth_url: str
    client_id: str
    client_secret: str
    holder_id: str
    pix_keys: list[str]
    """The holder's keys, one of each type."""
    console_url: str


class Prepared(Struct, frozen=True, kw_only=True):
    """What ``prepare`` tells ``run``."""

    migrations_count: int
    """How many were applied now."""
    sandbox_file: SandboxFile | None
    """What is to be written once all are ready; only in sandbox mode."""


def read(home: Path) -> SandboxFile | None:
    """What an earlier start wrote; ``None`` when there is nothing, or nothing that can be read."""
    try:
        return msgspec.json.decode((home / NAME).read_bytes(), type=SandboxFile)
    except (OSError, msgspec.DecodeError):
        return None


def encode(file: SandboxFile) -> bytes:
    """As it stands in the home."""
    return msgspec.json.format(msgspec.json.encode(file)) + b"\n"
