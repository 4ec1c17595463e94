"""Whose account a verb works on: a named profile, the environment, or the demonstration of the home, in this order."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from typing import Literal

from msgspec import Struct

from pixconnect import environment
from pixconnect.cli.frame.failures import CommandError
from pixconnect.cli.frame.settings import RUNNING_FILE, write_start
from pixconnect.cli.integrator import profile_files
from pixconnect.config import Settings
from pixconnect.local import sandbox_file

profile: ContextVar[str | None] = ContextVar("profile", default=None)
"""The name given with ``--profile``."""


class Credentials(Struct, frozen=True, kw_only=True):
    api_url: str
    auth_url: str
    client_id: str
    client_secret: str
    mode: Literal["sandbox", "live"] | None
    """``None`` where only the service knows it."""
    source: str
    """Where they were found, for sentences."""
    key: str | None = None
    """The holder's Pix key that verbs use by default."""
    start: str | None = None
    """The command that starts the service, where it is this machine's."""


def find_credentials() -> Credentials:
    """Find the credentials to use.

    Raises:
        SettingsError: A setting has a value that it cannot have.
    """
    settings = environment.read_settings()
    name = profile.get() or settings.profile
    if name:
        found = profile_files.read(name)
        return Credentials(
            api_url=found.api_url,
            auth_url=found.auth_url,
            client_id=found.client_id,
            client_secret=found.client_secret,
            mode=found.mode,
            key=found.key,
            source=f"the profile {name}",
        )
    return _of_environment(settings) or _of_home(settings)


def _of_environment(settings: Settings) -> Credentials | None:
    given = {name: getattr(settings, name) for name in ("api_url", "client_id", "client_secret")}
    if not any(given.values()):
        return None
    missing = [f"PIXCONNECT_{name.upper()}" for name, value in given.items() if not value]
    if missing:
        raise CommandError(f"{missing[0]}: missing; it is needed beside the other credentials in the environment")
    return Credentials(
        **given,
        auth_url=settings.auth_url or settings.api_url,
        # The default says nothing about a service elsewhere.
        mode="live" if settings.mode == "live" else None,
        source="the environment",
    )


def _of_home(settings: Settings) -> Credentials:
    home = settings.home_path
    _refuse_unreadable(home / sandbox_file.NAME)
    found = sandbox_file.read(home)
    if found is not None:
        return Credentials(
            api_url=found.base_url,
            auth_url=found.auth_url,
            client_id=found.client_id,
            client_secret=found.client_secret,
            mode="sandbox",
            source=str(home / sandbox_file.NAME),
            key=next((key for key in found.pix_keys if "@" in key), None),
            start=write_start(settings),
        )
    if (home / RUNNING_FILE).exists():
        raise CommandError(
            f"the service of {home} has no demonstration: make a client with `pixconnect client create`, and give it to "
            "`pixconnect profile add`"
        )
    raise CommandError(
        f"there are no credentials: nothing has run on {home} (`{write_start(settings)}` starts a sandbox; of one that runs "
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
