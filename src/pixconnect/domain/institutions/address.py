"""Where an account's credentials may go: to the institution's own hosts, or, in a counterpart's installation, to any other."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final, Protocol
from urllib.parse import SplitResult, urlsplit

from pixconnect.domain.institutions.account import Environment, InstitutionAccount
from pixconnect.domain.profiles.account_traits import AccountTraits

_LENGTH_MAX: Final = 255


class Addressed(Protocol):
    """An account, or the file that describes one."""

    @property
    def environment(self) -> Environment: ...

    @property
    def profile(self) -> str: ...

    @property
    def base_url(self) -> str: ...

    @property
    def token_url(self) -> str: ...


def find_address_fault(account: Addressed, traits: AccountTraits) -> str | None:
    """What is wrong with the account's addresses, in words that name the member of its file; ``None`` if nothing is.

    Real hosts are a closed list, and no host of the list is a counterpart: play money never meets them.
    """
    named = [("base_url", account.base_url)]
    if account.token_url:
        named.append(("token_url", account.token_url))
    for member, url in named:
        fault = _find_fault(account, traits, url)
        if fault is not None:
            return f"{member}: {fault}"
    if account.environment != "counterpart" and urlsplit(account.base_url).path not in ("", "/"):
        return "base_url: must be the bare host: the paths are those of the kind"
    return None


def token_address(account: InstitutionAccount, traits: AccountTraits, path: str) -> str:
    """The whole address where tokens are asked for."""
    if account.token_url:
        return account.token_url
    host = None if account.environment == "counterpart" else traits.token_hosts.get(account.environment)
    return (f"https://{host}" if host else account.base_url.rstrip("/")) + path


def _find_fault(account: Addressed, traits: AccountTraits, url: str) -> str | None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "cannot be read as an address"
    host = (parts.hostname or "").lower()
    if not host or not url.isascii() or not url.isprintable() or " " in url or parts.username is not None:
        return "must be an https address with a host, and without user info"
    if len(url) > _LENGTH_MAX:
        return f"must have up to {_LENGTH_MAX} characters"
    if parts.query or parts.fragment:
        return "must have neither a query nor a fragment"
    if account.environment == "counterpart":
        return _find_counterpart_fault(traits, parts, host)
    allowed = [*traits.hosts[account.environment], *filter(None, [traits.token_hosts.get(account.environment)])]
    if host not in allowed:
        return f"{host} is none of the {account.environment} hosts of {account.profile}: {', '.join(allowed)}"
    return None if parts.scheme == "https" and port in (None, 443) else "must be https on port 443"


def _find_counterpart_fault(traits: AccountTraits, parts: SplitResult, host: str) -> str | None:
    if any(host in hosts for hosts in traits.hosts.values()) or host in traits.token_hosts.values():
        return f"{host} is the institution's own, and no counterpart"
    is_plain = parts.scheme == "http" and is_loopback(host)
    return None if parts.scheme == "https" or is_plain else "must be https, or http on loopback"


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
