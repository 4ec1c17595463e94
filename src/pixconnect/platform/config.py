"""Every setting, by concern: its name with the unit in it, its default, and its meaning (``make docs`` writes the page)."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, Final, Literal, get_args, get_type_hints
from urllib.parse import urlsplit

from msgspec import Meta

from pixconnect.platform.database_config import DatabaseSettings


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """What people and machines may watch."""

    metrics_port: Annotated[int, Meta(ge=0, le=65_000)] = 0
    """The port on 127.0.0.1 of a process's metrics; 0 is none. Under ``run`` the worker's; API processes have the next."""

    log_format: Literal["auto", "console", "json"] = "auto"
    """``auto`` writes for people on a terminal and JSON lines otherwise. People who watch a sandbox are shown a line for each
    request, event and webhook, up to twenty a second and as many that failed, and how many more there were."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important log lines to write. ``info`` has one for each webhook attempt, ``debug`` also for each request."""

    access_log: Literal["all", "refused", "off"] = "refused"
    """Which requests get a log line, with client, peer, operation, status and duration: each, those answered 401, 403 or 429
    (of many a few, and their number), or none."""

    traces_url: Annotated[str, Meta(pattern=r"^(https?://[^\s?#]+)?$")] = ""
    """Where traces are sent by OTLP over HTTP, such as ``http://127.0.0.1:4318/v1/traces``; empty sends none and costs nothing.
    It needs ``pip install 'pixconnect[otel]'``. In live mode an https address, or one of this very machine."""


@dataclass(frozen=True, kw_only=True)
class FaceSettings:
    """Faces of institutions, and fixed credentials for tests."""

    faces: str = ""
    """Comma-separated faces of institutions that get a listener of their own in the sandbox, as ``NAME:PORT``, such as
    ``efi:8101,efi+homologation:8111``; with 0 a free port, and without one the face's usual. It speaks TLS as the institution
    does, by the files of ``tls_certificate_file``. Below ``/faces/NAME`` all of them are served anyway. Never in live mode."""

    face_answers: str = ""
    """Comma-separated choices where an institution's answer is undocumented, as ``NAME.CHOICE=ANSWER``, such as
    ``efi.above_limit=invalid``; `pixconnect face show NAME` lists them. ``drawn`` among them draws all others by
    ``sandbox_seed``: a correct program loses nothing under any seed."""

    demonstration_client_id: Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]{0,64}$")] = ""
    """The client_id of a sandbox's demonstration, for tests that need a fixed one; if empty, one is made."""

    demonstration_client_secret: Annotated[str, Meta(extra={"is_secret": True})] = ""
    """Its secret, beside ``demonstration_client_id``."""

    sandbox_clock_at: str = ""
    """Where the sandbox's clock begins at the first start on an empty database, an RFC 3339 instant such as
    ``2031-03-14T12:00:00Z``, for tests with fixed days; empty is real time. It goes on from there. At most 30 days before
    real time; certificates and tokens keep real time."""

    @property
    def clock_begins_at(self) -> datetime | None:
        """``sandbox_clock_at``; raises ``ValueError``."""
        if not self.sandbox_clock_at:
            return None
        with suppress(ValueError):
            found = datetime.fromisoformat(self.sandbox_clock_at)
            if found.tzinfo is not None:
                return found
        raise ValueError("must be an RFC 3339 instant with an offset, such as 2031-03-14T12:00:00Z")


Secret = Annotated[str, Meta(extra={"is_secret": True})]
PostgresVersion = Literal["16", "18"]
POSTGRES_VERSIONS: Final[tuple[PostgresVersion, ...]] = get_args(PostgresVersion)
"""Those of the embedded server, oldest first; its wheel has a folder for each (``platform/local/postgres_placement.py``)."""
_HTTPS_PORT: Final = 443
_CONTACT: Final = r"(mailto:|https://|tel:)[!-+\--~]+"
POSTGRES_NEWEST: Final = POSTGRES_VERSIONS[-1]

DEMONSTRATION_FILE = "sandbox.json"  # in a sandbox's home: the credentials of its demonstration
KEY_FILE = "secret.key"
PREVIOUS_KEY_FILE = "secret.key.previous"  # in a home: the secret keys (``platform/adapters/secret_box.py``)


class SettingsError(Exception):
    """A setting has a value that it cannot have; the message names it."""


@dataclass(frozen=True, kw_only=True)
class InstallationSettings:
    """The installation."""

    home: str = ".pixconnect"
    """The folder that holds all state of ``pixconnect run``."""

    mode: Literal["sandbox", "live"] = "sandbox"
    """``live`` knows no sandbox: no control API, no simulated rail, no plain http anywhere."""

    operator: Annotated[str, Meta(max_length=255)] = ""
    """The operator's name in the audit; empty means the system's user and host."""

    postgres_version: PostgresVersion = POSTGRES_NEWEST
    """Which of the embedded PostgreSQL servers a new ``home`` gets."""

    api_processes_count: Annotated[int, Meta(ge=0, le=64)] = 0
    """How many API processes ``pixconnect run`` starts; 0 means one a core."""

    secret_key: Secret = ""
    """32 bytes in base64url that encrypt webhook secrets and signing keys at rest; empty means the key file in ``home``."""

    secret_key_previous: Secret = ""
    """The secret key before it, until ``pixconnect secrets reseal``; empty means ``secret.key.previous`` in ``home``."""

    sending_secret_key: Secret = ""
    """As ``secret_key``, of credentials that send money: for workers and operators, and not for the API; empty keeps none."""

    sending_secret_key_previous: Secret = ""
    """The sending secret key before it, until ``pixconnect secrets reseal`` has sealed all again."""


@dataclass(frozen=True, kw_only=True)
class AddressSettings:
    """Where the service listens, and how it is seen."""

    host: str = "127.0.0.1"
    """The address that the API listens on."""

    port: Annotated[int, Meta(ge=0, le=65535)] = 8080
    """The port that the API listens on."""

    tls_port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """The port where the API also speaks TLS itself, for clients with certificates; 0 is none."""

    tls_client_certificate: Literal["auto", "required", "optional"] = "auto"
    """Whether a connection to that port must show a certificate: ``auto`` requires one in live mode and in no sandbox.
    ``optional`` also serves clients without one, for example callbacks of an institution that has none."""

    tls_host: str = ""
    """The address of that listener; empty means ``host``."""

    tls_proxies: str = ""
    """Comma-separated networks of proxies that pass TCP on to that port, saying by the PROXY protocol who connected to them."""

    tls_certificate_file: str = ""
    """PEM file of the server's certificate, with those between it and its authority; a sandbox makes it and the next two."""

    tls_key_file: str = ""
    """PEM file of the key of ``tls_certificate_file``."""

    tls_authority_file: str = ""
    """PEM bundle of the authorities that sign clients' certificates; a certificate of any other ends the handshake."""

    base_url: str = ""
    """The API's address as callers see it; empty means ``http://<host>:<port>``."""

    auth_url: str = ""
    """The identity service's address as callers see it, also the tokens' ``iss``; empty means ``base_url``."""

    security_contacts: Annotated[str, Meta(pattern=rf"^({_CONTACT}( *, *{_CONTACT})*)?$")] = ""
    """Comma-separated contacts for reports of weaknesses, the first preferred, as ``mailto:``, ``https://`` or ``tel:``.

    They stand in ``/.well-known/security.txt`` (RFC 9116); empty has no such file.
    """

    documentation: Literal["on", "off"] = "on"
    """Whether the service serves its documentation at ``/docs``; ``/openapi.json`` is served anyway."""

    callback_base_url: str = ""
    """The API's address for callbacks of institutions about incoming money; empty means ``base_url``."""

    console_host: str = "127.0.0.1"
    """The address that the console listens on."""

    console_port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """The port that the console listens on; with 0 ``pixconnect run`` takes the API's and a thousand, or else a free one."""

    console_base_url: str = ""
    """The console's address as browsers see it; empty means ``http://<console_host>:<console_port>``."""

    trusted_proxies: str = ""
    """Comma-separated networks whose ``X-Forwarded-For`` is trusted; empty trusts none."""


@dataclass(frozen=True, kw_only=True)
class CommandLineSettings:
    """A holder's verbs of the command line."""

    profile: Annotated[str, Meta(max_length=64)] = ""
    """The profile whose credentials a holder's verbs use (``pixconnect profile add``); empty means the three below."""

    api_url: str = ""
    """Where a holder's verbs find the API; empty means the sandbox that runs on ``home``, with its demonstration's client."""

    client_id: str = ""
    """The client by which a holder's verbs log in, beside ``api_url``."""

    client_secret: Secret = ""
    """The secret of ``client_id``."""


@dataclass(frozen=True, kw_only=True)
class PixSettings:
    """The institution, and its part in Pix."""

    ispb: Annotated[str, Meta(pattern="^[0-9A-Z]{8}$")] = "99999003"
    """Our institution's identifier in the Pix scheme, for participants; in live mode the sandbox's means that we are none."""

    institution_name: str = "Pix Connect Sandbox"
    """Our institution's name, shown as ``bank`` in transfers; live mode refuses the sandbox's."""

    location_ca_file: str = ""
    """PEM bundle of the CAs that sign other institutions' QR code payloads; used in live mode. Name the institutions' own,
    not the web's: revocation is not asked about, and a common name counts where there are no other names."""


@dataclass(frozen=True, kw_only=True)
class LoadSettings:
    """How much is served at once."""

    client_requests_max: Annotated[int, Meta(ge=0)] = 0
    """Requests a minute of one client, in one API process, before 429; 0 is no limit."""

    holder_requests_max: Annotated[int, Meta(ge=0)] = 0
    """Requests a minute of all clients of one holder, in one API process, before 429; 0 is no limit."""


@dataclass(frozen=True, kw_only=True)
class WebhookSettings:
    """Webhooks and events."""

    forbidden_networks: str = ""
    """Comma-separated networks that webhooks and QR code locations may not reach, besides all that are not public: your own
    public addresses, and your network's NAT64 prefix."""

    webhook_certificate_file: str = ""
    """PEM file of your certificate, with those above it, for receivers that ask for one (mTLS), read at the start."""

    webhook_key_file: str = ""
    """PEM file of the key of ``webhook_certificate_file``, without a password."""

    event_retention_days: Annotated[int, Meta(ge=4, le=160)] = 90
    """How long events and their deliveries are kept: at least for the 4 days that the attempts of one webhook may take.

    The value at the last run of `pixconnect migrate` is the minimum, even if a worker's setting is smaller. They go by
    partitions, so the last ones stay for a tenth longer: with 160 days none outlives the 180 of messages.
    """


@dataclass(frozen=True, kw_only=True)
class SimulationSettings:
    """The sandbox."""

    rail_url: str = ""
    """The sandbox rail's address, whose port ``pixconnect sandbox`` listens on. Empty means the rail that ``pixconnect run``
    starts, two thousand above ``port`` or else on a free port. Live mode ignores it."""

    sandbox_seed: int = 1
    """Seeds everything that the sandbox draws by chance."""

    sandbox_latency_ms: Annotated[int, Meta(ge=0, le=60_000)] = 50
    """How long the sandbox takes to settle unless a rule says otherwise."""

    sandbox_loopback: Literal["auto", "allowed", "forbidden"] = "auto"
    """Whether webhooks and QR code locations may reach this very machine in the sandbox; ``auto`` where only this machine can
    reach the sandbox, by ``host`` and ``base_url``. Never in live mode."""

    sandbox_receivers: str = ""
    """Comma-separated names and networks of hosts that webhooks of the sandbox may reach though they are not public, by http
    too: containers beside it and machines nearby, such as ``web,host.docker.internal,192.168.0.0/16``. Never in live mode."""


@dataclass(frozen=True, kw_only=True)
class Settings(
    InstallationSettings,
    AddressSettings,
    DatabaseSettings,
    CommandLineSettings,
    PixSettings,
    LoadSettings,
    WebhookSettings,
    SimulationSettings,
    FaceSettings,
    LogSettings,
):
    """All settings of one process."""

    @property
    def named_ispb(self) -> str:
        """ISPB used in our ids; 99999999 if unset in live mode."""
        return "99999999" if self.mode == "live" and self.ispb == type(self).ispb else self.ispb

    @property
    def tls_files(self) -> tuple[str, str, str]:
        """Certificate, key, authority."""
        return self.tls_certificate_file, self.tls_key_file, self.tls_authority_file

    @property
    def requires_client_certificate(self) -> bool:
        """Whether ``tls_port`` refuses a handshake without a certificate."""
        if self.tls_client_certificate == "auto":
            return self.mode == "live"
        return self.tls_client_certificate == "required"

    @property
    def webhook_tls_files(self) -> tuple[str, str]:
        """Certificate, key."""
        return self.webhook_certificate_file, self.webhook_key_file

    @property
    def home_path(self) -> Path:
        return Path(self.home).expanduser().absolute()

    @property
    def operators_url(self) -> str:
        """Where operators' verbs log in; empty where there is no database."""
        return self.operator_database_url or self.owner_database_url or self.database_url

    @property
    def console_login_url(self) -> str:
        """The console's login for actions that the service may not do."""
        return self.console_database_url or self.operators_url

    @property
    def public_base_url(self) -> str:
        """``base_url``, or where we listen; without a slash at the end."""
        return (self.base_url or f"http://{self.host}:{self.port}").rstrip("/")

    @property
    def public_auth_url(self) -> str:
        return (self.auth_url or self.public_base_url).rstrip("/")

    @property
    def public_console_url(self) -> str:
        """``console_base_url``, or where the console listens; without a slash at the end."""
        return (self.console_base_url or f"http://{self.console_host}:{self.console_port}").rstrip("/")

    @property
    def shows_system(self) -> bool:
        """Whether strangers may read what the service runs on."""
        return self.mode == "sandbox"

    @property
    def lacks_proxies(self) -> bool:
        """Whether callers seem to come through a proxy on this machine that is not named: it lends all of them its address."""
        seen = urlsplit(self.public_base_url)
        is_direct = self.is_tls_port_public and not is_loopback_host(self.tls_host or self.host)
        return not (self.read_networks("trusted_proxies") or is_direct) and not is_loopback_host(seen.hostname or "")

    @property
    def is_tls_port_public(self) -> bool:
        """Whether ``base_url`` leads to ``tls_port``, so that all callers connect there."""
        seen = urlsplit(self.public_base_url)
        if seen.port is None:
            # A proxy that is named may have the usual port at another address.
            return self.tls_port == _HTTPS_PORT and seen.scheme == "https" and not self.read_networks("trusted_proxies")
        return self.tls_port != 0 and self.tls_port == seen.port

    def read_networks(self, name: str) -> tuple[IPv4Network | IPv6Network, ...]:
        """The networks that a setting names; ``SettingsError`` if it names something else."""
        parts = [part.strip() for part in getattr(self, name).split(",")]
        try:
            return tuple(ip_network(part, strict=False) for part in parts if part)
        except ValueError as error:
            raise SettingsError(f"PIXCONNECT_{name.upper()}: {error}") from None

    @property
    def may_reach_loopback(self) -> bool:
        """Whether a URL that others gave us may lead to this machine."""
        if self.mode != "sandbox" or self.sandbox_loopback != "auto":
            return self.mode == "sandbox" and self.sandbox_loopback == "allowed"
        # Behind a proxy on this machine the sandbox listens on loopback only, and base_url shows its reach.
        seen_host = urlsplit(self.base_url).hostname or "" if self.base_url else self.host
        return is_loopback_host(self.host) and is_loopback_host(seen_host)


def is_loopback_host(host: str) -> bool:
    """Whether only this machine reaches a host, as a setting names it."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


KINDS = get_type_hints(Settings, include_extras=True)
CONCERNS: tuple[type, ...] = Settings.__bases__  # in the order of the reference
NAMES = tuple(name for concern in CONCERNS for name in concern.__annotations__)
SECRETS = tuple(name for name in NAMES if KINDS[name] == Secret)
"""Settings that may stand in files, and that we never log or store."""
