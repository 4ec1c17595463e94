"""Who may ask: clients, scopes, and whoever is calling now.

A client belongs to one holder and has a subset of the scopes. Its secret is known to it alone; we keep a keyed hash. Token
lifetimes and the limits on failed token requests keep real time, whatever the sandbox clock says.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Literal, get_args

from msgspec import Struct

from pixconnect.domain import errors

Scope = Literal[
    "charge.read",
    "charge.write",
    "transfer.read",
    "transfer.write",
    "refund.read",
    "refund.write",
    "ledger.read",
    "webhook.read",
    "webhook.write",
]
SCOPES: tuple[Scope, ...] = get_args(Scope)
"""Every permission there is, in the order in which they are shown."""

AUDIENCE = "pix-connect"
"""The tokens' ``aud``."""

FAILURES_WINDOW_S = 60
"""How long a failed token request counts."""

Network = IPv4Network | IPv6Network


class Caller(Struct, frozen=True, kw_only=True):
    """Whoever asks now, as their token says.

    Attributes:
        client_id: The OAuth client.
        holder_id: Whose account it works on.
        scopes: What it may do.
    """

    client_id: str
    holder_id: int
    scopes: frozenset[str]


class Client(Struct, frozen=True, kw_only=True):
    """An OAuth client of one holder, without its secret.

    Attributes:
        client_id: Unguessable letters and digits.
        holder_id: Whose account it works on.
        name: For the operator.
        scopes: What it may do, in the order of ``SCOPES``.
        created_at: Real time.
        rotated_at: When its secret was last replaced.
        disabled_at: Since when it is shut out.
        tokens_from: Tokens issued before it are refused; a whole second, as tokens are dated.
    """

    client_id: str
    holder_id: int
    name: str
    scopes: tuple[str, ...]
    created_at: datetime
    rotated_at: datetime | None = None
    disabled_at: datetime | None = None
    tokens_from: datetime | None = None


class IssuedClient(Struct, frozen=True, kw_only=True):
    """A client and its secret, which is told this once and never again.

    Attributes:
        client: The client.
        client_secret: 43 characters of chance, 256 bits.
    """

    client: Client
    client_secret: str


class AccessToken(Struct, frozen=True, kw_only=True):
    """The answer to a token request.

    Attributes:
        access_token: A JWT.
        expires_in_s: How long it is good for.
    """

    access_token: str
    expires_in_s: int


def end_tokens_at(now: datetime) -> datetime:
    """The ``tokens_from`` that refuses every token issued until now.

    Tokens are dated in whole seconds, so it is the next one: of two tokens of this second nobody could tell which is older.
    """
    return now.replace(microsecond=0) + timedelta(seconds=1)


def issue_at(now: datetime, tokens_from: datetime | None) -> datetime:
    """The ``iat`` of a token that is issued now: not before those of its client that were ended.

    So a client can log in at once after its tokens were ended; the date of its new token is then up to a second ahead.
    """
    return now if tokens_from is None else max(now, tokens_from)


def authorize(caller: Caller, scope: str) -> None:
    """Let a caller pass who has the scope.

    Raises:
        Forbidden: The token lacks it.
    """
    if scope not in caller.scopes:
        raise errors.Forbidden(f"the token lacks the scope {scope}")


def parse_scopes(scopes: Sequence[str]) -> tuple[str, ...]:
    """Read a client's scopes.

    Args:
        scopes: In any order.

    Returns:
        The same, once each, in the order of ``SCOPES``.

    Raises:
        BadRequest: None at all, or one that does not exist.
    """
    for scope in scopes:
        if scope not in SCOPES:
            raise errors.BadRequest(f"scope: must be one of {', '.join(SCOPES)}")
    if not scopes:
        raise errors.BadRequest("scope: a client needs at least one")
    return tuple(scope for scope in SCOPES if scope in scopes)


def parse_networks(text: str) -> tuple[Network, ...]:
    """Read a comma-separated list of networks or addresses.

    Raises:
        ValueError: One of them is neither; the message names it.
    """
    return tuple(ip_network(part.strip(), strict=False) for part in text.split(",") if part.strip())


def client_address(peer: str, forwarded_for: str, trusted: Sequence[Network]) -> str:
    """Find out whom the failures of a token request count for.

    ``X-Forwarded-For`` is believed from right to left, only as far as it was written by proxies that we trust: anybody can
    send one, and whoever believed it whole would give each bad guess an address of its own.

    Args:
        peer: The address at the other end of the connection.
        forwarded_for: The header's values joined with commas, oldest first; empty if there was none.
        trusted: Whose header is believed.

    Returns:
        The address; of IPv6 its /64, because whoever has one address has all of those.

    Example:
        >>> client_address("10.0.0.1", "6.6.6.6, 203.0.113.9", parse_networks("10.0.0.0/8"))
        '203.0.113.9'
    """
    address = _parse_address(peer)
    if address is None:
        return peer
    for hop in reversed(forwarded_for.split(",")):
        if not any(address in network for network in trusted):
            break
        earlier = _parse_address(hop)
        if earlier is None:
            break
        address = earlier
    if isinstance(address, IPv6Address):
        return str(IPv6Network((address, 64), strict=False))
    return str(address)


def _parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Read an address as proxies write it: with a port, in brackets, with a zone, or IPv4 inside IPv6."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
