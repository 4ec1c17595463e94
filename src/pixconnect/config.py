"""Every setting: its name with the unit in it, its default, and what it means.

Each is read from the environment as ``PIXCONNECT_<NAME>`` in capitals (``PORT`` and ``DATABASE_URL`` also without the
prefix). ``docs/reference/settings.md`` lists them all; a test fails when one is missing there.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

Seconds = Annotated[int, Meta(ge=1)]
Positive = Annotated[int, Meta(ge=1)]


class SettingsError(Exception):
    """A setting has a value that it cannot have; the message names it."""


class Settings(Struct, frozen=True, kw_only=True):
    """All settings of one process."""

    home: str = ".pixconnect"
    """The folder that holds all state of ``pixconnect run``."""

    mode: Literal["sandbox", "live"] = "sandbox"
    """``live`` knows no sandbox: no control API, no simulated rail, no plain http anywhere."""

    host: str = "127.0.0.1"
    """The address that the API listens on."""

    port: Annotated[int, Meta(ge=0, le=65535)] = 8080
    """The port that the API listens on."""

    base_url: str = ""
    """The API's address as callers see it; empty means ``http://<host>:<port>``."""

    auth_url: str = ""
    """The identity service's address as callers see it, also the tokens' ``iss``; empty means ``base_url``."""

    database_url: str = ""
    """PostgreSQL 16 or later, as ``postgresql://...``; empty means the embedded server in ``home``."""

    owner_database_url: str = ""
    """The address of a role that owns the tables and may make roles; empty means ``database_url``."""

    postgres_version: Literal["16", "18"] = "18"
    """Which of the two embedded PostgreSQL servers a new ``home`` gets."""

    api_processes_count: Annotated[int, Meta(ge=0, le=64)] = 0
    """How many API processes ``pixconnect run`` starts; 0 means one a core."""

    database_connections_max: Positive = 10
    """Connections to PostgreSQL of one process."""

    secret_key: str = ""
    """32 bytes in base64url that encrypt webhook secrets and signing keys at rest; empty means the key file in ``home``."""

    ispb: Annotated[str, Meta(pattern="^[0-9A-Z]{8}$")] = "99999003"
    """Our institution's identifier in the Pix scheme."""

    institution_name: str = "Pix Connect Sandbox"
    """Our institution's name, shown as ``bank`` in transfers."""

    rail_url: str = ""
    """The rail adapter's address; empty means the sandbox that ``pixconnect run`` starts."""

    sandbox_port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """The port of the sandbox rail on 127.0.0.1; 0 takes a free one."""

    sandbox_seed: int = 1
    """Seeds everything that the sandbox draws by chance."""

    sandbox_latency_ms: Annotated[int, Meta(ge=0, le=60_000)] = 50
    """How long the sandbox takes to settle unless a rule says otherwise."""

    token_lifetime_s: Seconds = 300
    """How long an access token is good for."""

    token_failures_max: Positive = 10
    """Failed token requests a minute, for a client_id and for an address, before 429."""

    trusted_proxies: str = ""
    """Comma-separated networks whose ``X-Forwarded-For`` is believed; empty trusts nobody."""

    signing_key_rotation_days: Positive = 90
    """A new signing key is made when the newest is this old."""

    signing_key_published_days: Positive = 30
    """How long a key stays published after its last signature."""

    location_ca_file: str = ""
    """PEM bundle of the CAs that sign other institutions' QR code payloads; used in live mode."""

    charge_lifetime_s: Seconds = 86_400
    """How long a charge can be paid."""

    handover_timeout_s: Seconds = 60
    """A transfer or refund that was never handed to the rail by then is given up and its money given back."""

    group_size_max: Annotated[int, Meta(ge=1, le=400)] = 256
    """Requests written in one transaction at most."""

    queue_length_max: Positive = 4096
    """Requests waiting for their group at most; more are answered 503."""

    webhook_in_flight_max: Positive = 64
    """Requests under way to one webhook endpoint at most, over all workers."""

    webhook_in_flight_holder_max: Positive = 128
    """Requests under way to all endpoints of one holder at most, over all workers."""

    event_retention_days: Positive = 90
    """How long events and their deliveries are kept."""

    metrics_port: Annotated[int, Meta(ge=0, le=65_000)] = 0
    """Where on 127.0.0.1 a process tells its metrics; 0 is nowhere. Under ``run`` the worker's; API processes have the next."""

    log_format: Literal["auto", "console", "json"] = "auto"
    """``auto`` writes for people on a terminal and JSON lines otherwise. People are shown five webhook attempts a second, those
    that failed first, and how many more there were."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important log lines to write. ``info`` has one for each webhook attempt, ``debug`` also for each request."""

    @property
    def home_path(self) -> Path:
        """``home`` as an absolute path."""
        return Path(self.home).expanduser().absolute()

    @property
    def public_base_url(self) -> str:
        """``base_url``, or where we listen; without a slash at the end."""
        return (self.base_url or f"http://{self.host}:{self.port}").rstrip("/")

    @property
    def public_auth_url(self) -> str:
        """``auth_url``, or ``public_base_url``."""
        return (self.auth_url or self.public_base_url).rstrip("/")


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """Read all settings from the environment.

    Raises:
        SettingsError: A value cannot be what it says; the message names the variable and the rule.
    """
    found: dict[str, str] = {}
    for name in Settings.__struct_fields__:
        for variable in _variables(name):
            if variable in environment:
                found[name] = environment[variable]
                break
    try:
        return msgspec.convert(found, Settings, strict=False)
    except msgspec.ValidationError as error:
        rule, _, path = str(error).partition(" - at ")
        name = path.strip("`").removeprefix("$.")
        raise SettingsError(f"{_variables(name)[0]}: {rule}") from None


def _variables(name: str) -> tuple[str, ...]:
    own = f"PIXCONNECT_{name.upper()}"
    return (own, name.upper()) if name in {"port", "database_url"} else (own,)
