"""Profiles on disk: one private file each in the user's configuration folder, so that two verbs at once lose nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

from pixconnect import environment
from pixconnect.cli.frame.failures import CommandError
from pixconnect.local.home import write_private

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Profile(Struct, frozen=True, kw_only=True):
    api_url: str
    auth_url: str
    client_id: str
    client_secret: str
    mode: Literal["sandbox", "live"]
    key: str | None = None


def read(name: str) -> Profile:
    path = _path(name)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Profile)
    except FileNotFoundError:
        known = ", ".join(list_names()) or "none"
        raise CommandError(f"--profile: there is no profile {name}; known: {known}") from None
    except (OSError, msgspec.DecodeError) as error:
        raise CommandError(f"the profile {path} cannot be read ({error}): add it again") from None


def write(name: str, profile: Profile) -> Path:
    path = _path(name)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, msgspec.json.format(msgspec.json.encode(profile)) + b"\n")
    except OSError as error:
        raise CommandError(f"{path} cannot be written ({error.strerror}): nothing was kept") from None
    return path


def remove(name: str) -> None:
    # A missing name gives the same message as reading it would.
    read(name)
    _path(name).unlink(missing_ok=True)


def list_names() -> list[str]:
    return sorted(path.stem for path in _folder().glob("*.json") if _NAME.fullmatch(path.stem))


def _folder() -> Path:
    return environment.own_folder("XDG_CONFIG_HOME", ".config") / "profiles"


def _path(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise CommandError(
            f"--profile: must be 1 to 64 letters, digits, dots, dashes or underscores, and not begin with a mark; "
            f"it is {name!r}"
        )
    return _folder() / f"{name}.json"
