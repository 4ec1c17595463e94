"""Finds, and in the sandbox makes, the API's TLS files, and reports faults before anything starts."""

import dataclasses
from urllib.parse import urlsplit

from pixconnect.platform import certificates
from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.config import Settings, SettingsError
from pixconnect.platform.http.tls import make_context

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_WILDCARDS = ("0.0.0.0", "::")  # noqa: S104  recognised, not bound


def with_files(settings: Settings) -> Settings:
    """Return the settings with the sandbox's own TLS files if none are named, as far as any part uses TLS."""
    if check_files(settings) or not (settings.tls_port or settings.faces):
        return settings
    own = str(certificates.write_server(settings.home_path, _hosts(settings), SystemClock().real_now()))
    authority = str(certificates.authority_file(settings.home_path))
    return dataclasses.replace(settings, tls_certificate_file=own, tls_key_file=own, tls_authority_file=authority)


def check_files(settings: Settings) -> bool:
    """Whether the TLS files are named; raises ``SettingsError`` if a part uses them and cannot."""
    if not (settings.tls_port or settings.faces) or (not any(settings.tls_files) and settings.mode == "sandbox"):
        return False
    try:
        make_context(*settings.tls_files)
    except OSError as error:
        names = "PIXCONNECT_TLS_CERTIFICATE_FILE, PIXCONNECT_TLS_KEY_FILE, PIXCONNECT_TLS_AUTHORITY_FILE"
        raise SettingsError(f"{names}: not all of them can be used ({error.strerror or error})") from None
    return True


def _hosts(settings: Settings) -> tuple[str, ...]:
    """Return every name and address by which a test program may reach us."""
    base_host = urlsplit(settings.base_url).hostname or ""
    named = (*_LOOPBACK, settings.host, settings.tls_host, base_host)
    return tuple(dict.fromkeys(host for host in named if host and host not in _WILDCARDS))
