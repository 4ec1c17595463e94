"""The settings of a verb: those of the environment, then those of a ``pixconnect run`` on the same home.

So ``PIXCONNECT_HOME=... pixconnect client create`` works beside a running service without any other setting. The service's
secrets are not written into the home, which is copied into backups and stays when the service is killed. A file there only
names where each secret can be read: a secret from the environment is in the memory of the running process.
"""

import dataclasses
import os
import shlex
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from pixconnect.doors.cli import failures, live_mode
from pixconnect.doors.cli.failures import CommandError
from pixconnect.kernel.feature import gather
from pixconnect.kernel.rules import proposal
from pixconnect.platform import config, environment
from pixconnect.platform.config import Settings, SettingsError
from pixconnect.platform.environment import read_named_file
from pixconnect.platform.local import home
from pixconnect.platform.local.postgres_placement import PLACEMENT_FILE

RUNNING_FILE = "running.json"
_NAME_LENGTH_MAX = 255

operator: ContextVar[str | None] = ContextVar("operator", default=None)
"""The name given with ``--operator``."""


class Running(Struct, frozen=True, kw_only=True):
    """Settings that verbs need beside a running service; in a file of the home that only its owner can read."""

    mode: str
    base_url: str
    auth_url: str
    database_url: str
    """The embedded server's address; empty if the settings name a database."""
    owner_database_url: str
    console_database_url: str = ""
    """As the others: verbs that make tables on another server grant the console access to them."""
    rail_url: str
    faces: str = ""
    """The faces that listen, with their ports."""
    secret_files: Mapping[str, str] = {}
    """Paths of the service's secrets while it runs, by setting."""


FACES = "PIXCONNECT_FACES"


class FaceListener(Protocol):
    @property
    def face(self) -> str: ...

    @property
    def port(self) -> int: ...


class FaceSettings(Struct, frozen=True, kw_only=True):
    """Reads the settings of faces; both raise ``ValueError``."""

    parse_listeners: Callable[[str], Sequence[FaceListener]]
    parse_answers: Callable[[str, int], object]


def read_listeners(settings: Settings) -> Sequence[FaceListener]:
    """The faces that get a listener; raises ``SettingsError``, also for all other settings of tests."""
    try:
        _ = settings.clock_begins_at
    except ValueError as error:
        raise SettingsError(f"PIXCONNECT_SANDBOX_CLOCK_AT: {error}") from None
    name = FACES if settings.faces else "PIXCONNECT_FACE_ANSWERS"
    if not (settings.faces or settings.face_answers):
        return ()
    if settings.faces and settings.mode == "live":
        raise SettingsError(f"{FACES}: there are no faces in live mode")
    rows = gather("face_settings", FaceSettings)
    if not rows:
        raise SettingsError(f"{name}: needs the package pixconnect-faces: install it in the version of this service")
    try:
        rows[0].parse_answers(settings.face_answers, settings.sandbox_seed)
    except ValueError as error:
        raise SettingsError(f"PIXCONNECT_FACE_ANSWERS: {error}") from None
    try:
        return rows[0].parse_listeners(settings.faces)
    except ValueError as error:
        raise SettingsError(f"{FACES}: {error}") from None


def read_settings() -> Settings:
    """Read the settings; those that are empty in the environment come from the running service, if there is one."""
    settings = environment.read_settings()
    if (named := operator.get()) is not None:
        if not 1 <= len(named) <= _NAME_LENGTH_MAX or not named.isprintable():
            raise SettingsError(f"--operator: must have 1 to {_NAME_LENGTH_MAX} printable characters")
        settings = dataclasses.replace(settings, operator=named)
    if proposal.names_another_door(settings.operator):
        raise SettingsError(
            "--operator: must not begin with console, client or pattern: the audit names the console, clients and patterns so"
        )
    # With its own database, the environment means another service than the one that may run here.
    if settings.database_url:
        return settings
    try:
        running = msgspec.json.decode((settings.home_path / RUNNING_FILE).read_bytes(), type=Running)
    except (FileNotFoundError, NotADirectoryError):
        return settings
    except PermissionError as error:
        raise CommandError(
            f"{error.filename} cannot be read ({error.strerror}): run this as the user whose service it is, or set DATABASE_URL"
        ) from None
    # The mode is always the running service's: its tables refuse a verb of another.
    found: dict[str, Any] = msgspec.structs.asdict(running)
    found |= {name: _read_secret(path) for name, path in found.pop("secret_files").items()}
    return dataclasses.replace(
        settings, **{name: value for name, value in found.items() if name == "mode" or not getattr(settings, name)}
    )


def read_database_settings() -> Settings:
    """As ``read_settings``, for a verb that cannot do without a database."""
    settings = read_settings()
    live_mode.refuse_unsafe_database(settings)
    if settings.operators_url:
        return settings
    # If `pixconnect run` was started with another database, the verbs use that one.
    if (settings.home_path / PLACEMENT_FILE).exists():
        raise nothing_runs(settings)
    raise CommandError("there is no database: set DATABASE_URL, or PIXCONNECT_HOME to the home of a running `pixconnect run`")


@contextmanager
def complaining_of_home(settings: Settings) -> Generator[None]:
    """If the database's address came from a home and leads nowhere, report that nothing runs there."""
    try:
        yield
    except Exception as error:
        # A killed service leaves its addresses behind.
        if environment.read_settings().operators_url or not failures.is_database_unreachable(error):
            raise
        raise nothing_runs(settings) from None


def nothing_runs(settings: Settings) -> CommandError:
    same = " (or the same with `pixconnect run`)" if settings.mode == "sandbox" else ""
    return CommandError(f"nothing runs on {settings.home_path}: start `{write_start(settings)}`{same} first")


def write_start(settings: Settings) -> str:
    """Write the command that starts the service of this home again, at its last port."""
    usual, port = Settings(), find_port(settings)
    words = [f"PORT={port}"] if port != usual.port else []
    if settings.home_path != usual.home_path:
        words.append(f"PIXCONNECT_HOME={shlex.quote(str(settings.home_path))}")
    # By parts or all at once: `make run` is for trying it out.
    return " ".join([*words, "make run" if settings.mode == "sandbox" else "PIXCONNECT_MODE=live pixconnect run"])


def find_port(settings: Settings) -> int:
    """Return the port that the environment names, or else the home's service's last one."""
    known = home.read_sandbox_file(settings.home_path)
    if known is None or settings.port != Settings().port:
        return settings.port
    address = urlsplit(known.base_url)
    # A public address, such as a proxy's, reveals nothing about ours.
    is_ours = address.hostname in {settings.host, "127.0.0.1", "localhost", "::1"}
    return address.port or settings.port if is_ours else settings.port


def reachable_host(host: str) -> str:
    # The wildcard address is not one to connect to.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - recognised, not bound
    return f"[{host}]" if ":" in host else host


def make_secret_files(given: Settings) -> dict[str, str]:
    """Paths of readable files with this process's secrets, for its lifetime, by setting.

    A secret from a file stays there. One from the environment goes into an anonymous file in memory, which only processes that
    may inspect this one can open. On systems without such files the verbs need the variable too.
    """
    files = {name: str(path) for name, path in environment.secret_files().items()}
    for name in config.SECRETS:
        value: str = getattr(given, name)
        if value and name not in files and hasattr(os, "memfd_create"):
            descriptor = os.memfd_create(f"pixconnect {name}")
            os.fchmod(descriptor, 0o600)
            os.write(descriptor, value.encode())
            files[name] = f"/proc/{os.getpid()}/fd/{descriptor}"
    return files


def _read_secret(path: str) -> str:
    # A file in memory ends with its process; the verb then names the missing setting.
    try:
        return read_named_file(path).decode().strip()
    except (OSError, UnicodeDecodeError):
        return ""
