"""The account of a verb: a named profile, the environment, or the demonstration of the home, in this order.

A profile is one private file in the user's configuration folder, so that two verbs at once lose nothing.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct, structs

from pixconnect.doors.cli.failures import CommandError
from pixconnect.doors.cli.settings import RUNNING_FILE, write_start
from pixconnect.platform import environment
from pixconnect.platform.config import Settings
from pixconnect.platform.local.home import SANDBOX_FILE, read_sandbox_file, write_private

profile: ContextVar[str | None] = ContextVar("profile", default=None)
"""The name given with ``--profile``."""


class Credentials(Struct, frozen=True, kw_only=True):
    api_url: str
    auth_url: str
    client_id: str
    client_secret: str
    mode: Literal["sandbox", "live"] | None  # ``None`` if only the service knows it
    source: str  # their source, for messages
    key: str | None = None  # the holder's Pix key that verbs use by default
    start: str | None = None  # the command that starts the service, if it is this machine's


def find_credentials() -> Credentials:
    """Find the credentials to use.

    Raises:
        SettingsError: A setting has an invalid value.
    """
    settings = environment.read_settings()
    name = profile.get() or settings.profile
    if name:
        return Credentials(**structs.asdict(read_profile(name)), source=f"the profile {name}")
    return _of_environment(settings) or _of_home(settings)


def _of_environment(settings: Settings) -> Credentials | None:
    given = {name: getattr(settings, name) for name in ("api_url", "client_id", "client_secret")}
    if not any(given.values()):
        return None
    if missing := [f"PIXCONNECT_{name.upper()}" for name, value in given.items() if not value]:
        raise CommandError(f"{missing[0]}: missing; it is needed beside the other credentials in the environment")
    return Credentials(
        **given,
        auth_url=settings.auth_url or settings.api_url,
        # The default reveals nothing about a service on another machine.
        mode="live" if settings.mode == "live" else None,
        source="the environment",
    )


def _of_home(settings: Settings) -> Credentials:
    home = settings.home_path
    _refuse_unreadable(home / SANDBOX_FILE)
    if (found := read_sandbox_file(home)) is not None:
        return Credentials(
            api_url=found.base_url,
            auth_url=found.auth_url,
            client_id=found.client_id,
            client_secret=found.client_secret,
            mode="sandbox",
            source=str(home / SANDBOX_FILE),
            key=next((key for key in found.pix_keys if "@" in key), None),
            start=write_start(settings),
        )
    # Only a sandbox that `pixconnect run` starts has a demonstration.
    if settings.mode == "live" or settings.operators_url or (home / RUNNING_FILE).exists():
        raise CommandError(
            "there are no credentials: make a client with `pixconnect client create`, and give it to `pixconnect profile add`"
        )
    raise CommandError(
        f"there are no credentials: nothing has run on {home} (`{write_start(settings)}` starts it; of one that runs "
        "elsewhere PIXCONNECT_HOME must name the folder), no --profile is named, and PIXCONNECT_API_URL, PIXCONNECT_CLIENT_ID "
        "and PIXCONNECT_CLIENT_SECRET are not set"
    )


def _refuse_unreadable(path: Path) -> None:
    try:
        path.open("rb").close()
    except FileNotFoundError:
        return
    except OSError as error:
        raise CommandError(
            f"{path} cannot be read ({error.strerror}): run this as the user of that service, or name a --profile"
        ) from None


_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Profile(Struct, frozen=True, kw_only=True):
    api_url: str
    auth_url: str
    client_id: str
    client_secret: str
    mode: Literal["sandbox", "live"]
    key: str | None = None


def read_profile(name: str) -> Profile:
    path = _profile_path(name)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Profile)
    except FileNotFoundError:
        known = ", ".join(list_profiles()) or "none"
        raise CommandError(f"--profile: there is no profile {name}; known: {known}") from None
    except (OSError, msgspec.DecodeError) as error:
        raise CommandError(f"the profile {path} cannot be read ({error}): add it again") from None


def write_profile(name: str, profile: Profile) -> Path:
    path = _profile_path(name)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, msgspec.json.format(msgspec.json.encode(profile)) + b"\n")
    except OSError as error:
        raise CommandError(f"{path} cannot be written ({error.strerror}): nothing was kept") from None
    return path


def remove_profile(name: str) -> None:
    # A missing name gives the same message as reading it would.
    read_profile(name)
    _profile_path(name).unlink(missing_ok=True)


def list_profiles() -> list[str]:
    return sorted(path.stem for path in _profile_folder().glob("*.json") if _NAME.fullmatch(path.stem))


def _profile_folder() -> Path:
    return environment.own_folder("XDG_CONFIG_HOME", ".config") / "profiles"


def _profile_path(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise CommandError(
            f"--profile: must be 1 to 64 letters, digits, dots, dashes or underscores, and not begin with a mark; "
            f"it is {name!r}"
        )
    return _profile_folder() / f"{name}.json"
