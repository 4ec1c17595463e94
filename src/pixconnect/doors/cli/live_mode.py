"""Findings of ``pixconnect doctor``; and unsafe settings, with which a part in live mode refuses to start.

The refusal names the setting. A state that may be intended is a risk: the part logs it at its start, and ``doctor`` shows it.
The sandbox permits anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final, Literal
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from msgspec import Struct

from pixconnect.doors.cli import terminal
from pixconnect.platform import environment
from pixconnect.platform.config import (
    DEMONSTRATION_FILE,
    KEY_FILE,
    PREVIOUS_KEY_FILE,
    Settings,
    SettingsError,
    is_loopback_host,
)
from pixconnect.platform.database_config import DATABASE_URLS
from pixconnect.platform.local.home import closed_mode


class Symptom(Struct, frozen=True, kw_only=True):
    check: str
    status: Literal["ok", "note", "wrong"]
    text: str
    todo: str | None = None


def ok(check: str, text: str) -> Symptom:
    return Symptom(check=check, status="ok", text=text)


def note(check: str, text: str, todo: str) -> Symptom:
    """Note a state that may be intended."""
    return Symptom(check=check, status="note", text=text, todo=todo)


def wrong(check: str, text: str, todo: str) -> Symptom:
    return Symptom(check=check, status="wrong", text=text, todo=todo)


def split(check: str, sentence: str) -> Symptom:
    """Split a failure's sentence, which ends with the advice."""
    text, _, todo = sentence.rpartition(": ")
    return wrong(check, text, todo) if text else wrong(check, sentence, "look at the service's log")


_VERIFIED: Final = "verify-full"
_PREFIXES_MIN: Final = {4: 8, 6: 7}  # those of the widest private networks, by the version of IP


def refuse_unsafe_live(settings: Settings) -> None:
    """Refuse to serve live money with unsafe settings; ``SettingsError`` for the first one."""
    for refusal in list_refusals(settings):
        raise SettingsError(refusal)


def refuse_unsafe_database(settings: Settings) -> None:
    """Refuse to reach live money over a network that others may listen on; operators' verbs and migrations do too."""
    for refusal in _list_unsafe_databases(settings) if settings.mode == "live" else ():
        raise SettingsError(refusal)


def list_refusals(settings: Settings) -> Iterator[str]:
    """List why live mode is refused: each names the setting and, after a semicolon, the remedy."""
    if settings.mode != "live":
        return
    yield from _list_unsafe_urls(settings)
    yield from _list_unsafe_proxies(settings)
    if settings.tls_port and not all(settings.tls_files):
        yield (
            "PIXCONNECT_TLS_PORT: in live mode, PIXCONNECT_TLS_CERTIFICATE_FILE, PIXCONNECT_TLS_KEY_FILE and "
            "PIXCONNECT_TLS_AUTHORITY_FILE must be set too"
        )
    if settings.is_tls_port_public and settings.requires_client_certificate:
        yield (
            "PIXCONNECT_TLS_CLIENT_CERTIFICATE: PIXCONNECT_BASE_URL leads to PIXCONNECT_TLS_PORT, where payers' institutions "
            "read QR codes and have no certificate of yours; set it to optional, or lead PIXCONNECT_BASE_URL to a proxy that "
            "PIXCONNECT_TRUSTED_PROXIES names"
        )
    # A home made for trying out, above all its secret key, must not protect real money.
    if (settings.home_path / DEMONSTRATION_FILE).exists():
        yield f"PIXCONNECT_HOME: {settings.home_path} holds a sandbox's demonstration: in live mode, name another folder"
    yield from _list_unsafe_databases(settings)
    # Without participation in Pix there is no ISPB, and none is required; a name appears in texts for others.
    usual = Settings()
    if settings.institution_name == usual.institution_name:
        yield f"PIXCONNECT_INSTITUTION_NAME: {usual.institution_name} is the sandbox's; in live mode, set your institution's"
    if not (settings.institution_name.strip() and settings.institution_name.isprintable()):
        yield "PIXCONNECT_INSTITUTION_NAME: is blank or not printable; in live mode, set your institution's"


def list_risks(settings: Settings) -> Iterator[str]:
    """List states that are probably mistakes in live mode, but may be intended; in the same form."""
    if settings.mode == "live" and settings.lacks_proxies:
        yield (
            "PIXCONNECT_TRUSTED_PROXIES: not set, so behind a proxy on this machine all callers have one address, "
            "and one caller's failed logins lock out all; name the proxy's network, such as 127.0.0.1/32"
        )


def _list_unsafe_urls(settings: Settings) -> Iterator[str]:
    for variable, url, must_be_https in (
        ("PIXCONNECT_BASE_URL", settings.public_base_url, True),
        ("PIXCONNECT_AUTH_URL", settings.public_auth_url, True),
        ("PIXCONNECT_CONSOLE_BASE_URL", settings.public_console_url, False),
    ):
        # A path follows this text. A refused one may be a password, so it is not shown.
        if any(mark in url for mark in "@?#"):
            yield f"{variable}: must have no user info, query or fragment in live mode; give scheme, host and path alone"
        elif must_be_https and not url.startswith("https://"):
            yield f"{variable}: must be an https:// address in live mode; it is {url}"


def _list_unsafe_proxies(settings: Settings) -> Iterator[str]:
    named = settings.read_networks("trusted_proxies")
    for network in named:
        # No proxies need more: any host within them chooses the trusted address.
        if network.prefixlen < _PREFIXES_MIN[network.version]:
            yield f"PIXCONNECT_TRUSTED_PROXIES: {network} is too wide; in live mode, name the networks of your proxies only"
    # Without them tokens and sessions would cross a network unencrypted, or every address would be the proxy's.
    if named:
        return
    for variable, host in (("PIXCONNECT_HOST", settings.host), ("PIXCONNECT_CONSOLE_HOST", settings.console_host)):
        if not is_loopback_host(host):
            yield (
                "PIXCONNECT_TRUSTED_PROXIES: missing; in live mode, name the networks of the proxy that speaks TLS, or let "
                f"{variable} be 127.0.0.1"
            )


def _list_unsafe_databases(settings: Settings) -> Iterator[str]:
    if settings.database_tls != _VERIFIED:
        return
    for name in DATABASE_URLS:
        # The address may hold a password: we show only the host.
        if far := _find_far_host(getattr(settings, name)):
            yield (
                f"PIXCONNECT_{name.upper()}: reaches {far} without proof of who answers; in live mode, add "
                "sslmode=verify-full and sslrootcert=FILE to its query, or set PIXCONNECT_DATABASE_TLS=off-by-operator"
            )


# asyncpg reads these if an address lacks them.
def _find_far_host(url: str, environment: Mapping[str, str] = os.environ) -> str | None:  # noqa: TID251  libpq's, not ours
    """Find the first host beyond this machine to which a connection would not be verified; ``None`` if all are safe."""
    if not url:
        return None
    address = urlsplit(url)
    query = {name: values[-1] for name, values in parse_qs(address.query).items()}
    if (query.get("sslmode") or environment.get("PGSSLMODE")) == _VERIFIED:
        return None
    for host in _list_hosts(address, query, environment):
        if not host.startswith("/") and not is_loopback_host(host):
            return host
    return None


def _list_hosts(address: SplitResult, query: Mapping[str, str], environment: Mapping[str, str]) -> list[str]:
    named = unquote(address.netloc.partition("@")[2] if "@" in address.netloc else address.netloc)
    named = named or query.get("host", "")
    # A service file may lead anywhere.
    if not named and (service := query.get("service") or environment.get("PGSERVICE")):
        return [f"the service {service}"]
    hosts = named or environment.get("PGHOST", "")
    # An IPv6 address is in brackets, with or without a port; nothing at all is a socket of this machine.
    return [one[: one.find("]") + 1] if one.startswith("[") else one.partition(":")[0] for one in hosts.split(",") if one]


_FILE_OPEN = 0o077
_FOLDER_OPEN = 0o066
"""Others may pass through a home, as the embedded server's user must under root, but neither read nor write it."""


def complain_of_open(settings: Settings) -> None:
    """Warn of each file that other users can read or write: the home, its keys, the files of secrets."""
    home = settings.home_path
    files = (home / KEY_FILE, home / PREVIOUS_KEY_FILE, *environment.secret_files().values())
    of_home = (home, _FOLDER_OPEN, f"{closed_mode(has_server=not settings.database_url):o}")
    for path, too_open, wanted in (of_home, *((file, _FILE_OPEN, "600") for file in files)):
        # If a file is missing or unreadable, the part that needs it reports that.
        with suppress(OSError):
            if (mode := path.stat().st_mode & 0o777) & too_open:
                terminal.complain(f"{path} holds secrets and is open to others (mode {mode:04o}): chmod {wanted} {path}")
