"""The settings of a verb: the environment's, and what a ``pixconnect run`` on the same home has found out since.

So ``PIXCONNECT_HOME=... pixconnect client create`` works beside a running service without any other setting. No secret that the
service was given is written for that, since the home is copied into backups and stays when the service is killed: the file
names where each can be read, which for one from the environment is memory of the running process.
"""

import os
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from pixconnect import config
from pixconnect.config import Settings, SettingsError

RUNNING_FILE = "running.json"
_NAME_LENGTH_MAX = 255

operator: ContextVar[str | None] = ContextVar("operator", default=None)
"""Who said on the command line that they are using it."""


class Running(Struct, frozen=True, kw_only=True):
    """What others need to work beside a running service; in a file of the home that only its owner reads."""

    mode: str
    base_url: str
    auth_url: str
    database_url: str
    """Of the embedded server, where it is used."""
    owner_database_url: str
    rail_url: str
    """The one in use."""
    secret_files: Mapping[str, str] = {}
    """Where the secrets that the service was given can be read while it runs, by the setting's name."""


def read_settings() -> Settings:
    """Read the settings; those that are empty in the environment are taken from the running service, if there is one.

    Raises:
        SettingsError: A value cannot be what it says.
    """
    settings = config.read_settings()
    if (named := operator.get()) is not None:
        if not 1 <= len(named) <= _NAME_LENGTH_MAX or not named.isprintable():
            raise SettingsError(f"--operator: must have 1 to {_NAME_LENGTH_MAX} printable characters")
        settings = msgspec.structs.replace(settings, operator=named)
    if settings.database_url:
        return settings
    try:
        running = msgspec.json.decode((settings.home_path / RUNNING_FILE).read_bytes(), type=Running)
    except (FileNotFoundError, NotADirectoryError):
        return settings
    found: dict[str, Any] = msgspec.structs.asdict(running)
    found |= {name: _read_secret(path) for name, path in found.pop("secret_files").items()}
    return msgspec.structs.replace(
        settings, **{name: value for name, value in found.items() if name == "mode" or not getattr(settings, name)}
    )


def lend_secrets(given: Settings) -> dict[str, str]:
    """Where others can read the secrets that this process was given, for as long as it lives; the setting's name to the path.

    A file stays where it is. What came from the environment goes into a file in memory that has no name anywhere: whoever may
    look into this process can open it. Where the system has no such files the verbs need the variable too.
    """
    files = {name: str(path) for name, path in config.secret_files().items()}
    for name in config.SECRETS:
        value: str = getattr(given, name)
        if value and name not in files and hasattr(os, "memfd_create"):
            descriptor = os.memfd_create(f"pixconnect {name}")
            os.fchmod(descriptor, 0o600)
            os.write(descriptor, value.encode())
            files[name] = f"/proc/{os.getpid()}/fd/{descriptor}"
    return files


def _read_secret(path: str) -> str:
    """What such a file holds; nothing if it has gone with its process."""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
