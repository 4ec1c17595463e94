"""The permitted addresses for a URL that a caller chose: webhook endpoints, and locations of QR codes; and callers' own.

::

    URL ──parse_target──► Target ──(DNS look-up)──► addresses ──check_addresses──► connect to one of these only

We check a name when it is saved, and its addresses before each connection, all of them together: one forbidden address refuses
the name. Only public unicast is allowed, by the ranges below; Python's own ``is_global`` admits some forbidden ranges. We check
an address inside another (mapped, NAT64, ISATAP) as the one it carries. Where the sandbox allows loopback, the URL itself must
name it: a name that merely leads there is refused.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Literal
from urllib.parse import quote

from msgspec import Struct

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

URL_LENGTH_MAX = 2048

_DENIED_IPV4: Final = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",  # a cloud's host agent, at a public address
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
_GLOBAL_IPV6: Final = IPv6Network("2000::/3")
_DENIED_IPV6: Final = tuple(
    IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")
)
_NAT64: Final = IPv6Network("64:ff9b::/96")
# RFC 5214, section 6.1: the first half of an interface's name, but for one bit. 6to4 and Teredo are among the networks above.
_ISATAP: Final = 0x0000_5EFE

_URL: Final = re.compile(r"(?P<scheme>https?)://(?P<authority>[^/?#]*)(?P<path>[^#]*)(?P<fragment>#.*)?", re.IGNORECASE)
_AUTHORITY: Final = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]*)(?::(?P<port>[0-9]{1,5}))?")
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_HOST_LENGTH_MAX: Final = 253
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
# Domains with a different meaning in each network.
_DENIED_SUFFIXES: Final = (".internal", ".local", ".localhost")
_PATH_SAFE: Final = "/?:@!$&'()*+,;=-._~%[]"


class TargetRefused(Exception):  # noqa: N818  named by its meaning
    """A URL, or an address behind it, may not be connected to; ``reason`` follows the name of a field."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class NotPublic(TargetRefused):
    """It would be permitted if its host were public, or if the operator of a sandbox named it."""


class NamedHosts(Struct, frozen=True):
    """Hosts that the operator of a sandbox permits to receivers, public or not, such as neighbouring containers."""

    names: frozenset[str] = frozenset()
    networks: Sequence[Network] = ()

    def __contains__(self, host: tuple[str, Address | None]) -> bool:
        name, address = host
        return name in self.names if address is None else _is_within(address, self.networks)


NO_HOSTS: Final = NamedHosts()


def parse_named_hosts(text: str) -> NamedHosts:
    """Read names, addresses and networks, separated by commas; ``ValueError`` names an unreadable one."""
    names: set[str] = set()
    networks: list[Network] = []
    for part in filter(None, (part.strip().lower() for part in text.split(","))):
        try:
            networks.append(ip_network(part, strict=False))
        except ValueError:
            if not all(_LABEL.fullmatch(label) for label in part.split(".")) or _NUMBER.fullmatch(part.split(".")[-1]):
                raise ValueError(f"{part!r} is neither a host's name, nor an address or a network") from None
            names.add(part)
    return NamedHosts(frozenset(names), tuple(networks))


class Target(Struct, frozen=True, kw_only=True):
    """A parsed URL of a permitted form."""

    scheme: Literal["http", "https"]  # ``http`` only in the sandbox, for loopback and hosts that its operator named
    host: str  # a name in ASCII and lower case, or an address
    port: int
    path: str  # with the query; ASCII
    address: Address | None
    is_loopback_allowed: bool  # the URL names a loopback address or ``localhost``, and that is allowed
    is_named: bool = False  # the operator of a sandbox named this very host, so it need not be public

    @property
    def authority(self) -> str:
        """The value of the ``Host`` header."""
        host = f"[{self.host}]" if isinstance(self.address, IPv6Address) else self.host
        return host if self.port == (443 if self.scheme == "https" else 80) else f"{host}:{self.port}"


def parse_target(url: str, *, allows_loopback: bool, named: NamedHosts = NO_HOSTS) -> Target:
    """Parse a URL and check its form; ``TargetRefused`` names the first broken rule.

    Args:
        allows_loopback: Whether it may lead to this machine: only in a sandbox, and not in every one.
        named: Hosts that the operator of a sandbox permits.
    """
    if len(url) > URL_LENGTH_MAX:
        raise TargetRefused(f"is longer than {URL_LENGTH_MAX} characters")
    if any(character <= " " or character in '\\"<>^`{|}\x7f' or character.isspace() for character in url):
        raise TargetRefused("contains a character that no URL may contain")
    found = _URL.fullmatch(url)
    # A local trial has a receiver on this machine, and mostly no certificate.
    must = "must be an https URL" + (", or http://localhost:3000/ and its like" if allows_loopback else "")
    if found is None:
        raise TargetRefused(must)
    if found["fragment"] is not None:
        raise TargetRefused("must not have a fragment")
    if "@" in found["authority"]:
        raise TargetRefused("must not have user info")
    authority = _AUTHORITY.fullmatch(found["authority"])
    if authority is None:
        raise TargetRefused("has no host and port that can be read")
    host, address = _parse_host(authority["host"])
    is_local = allows_loopback and (_is_loopback(address) if address is not None else host == "localhost")
    is_named = (host, address) in named
    scheme: Literal["http", "https"] = "https" if found["scheme"].lower() == "https" else "http"
    # Plain http can be read in transit, except on this machine.
    if scheme == "http" and not is_local and not is_named:
        raise NotPublic(must)
    port = int(authority["port"]) if authority["port"] else (443 if scheme == "https" else 80)
    if not is_local and not is_named:
        _check_name(host, address)
    # The other ports below 1024 are services that were never made to receive webhooks, such as SSH or mail.
    if not (0 < port <= 65535 if is_local or is_named else port == 443 or 1024 <= port <= 65535):
        raise TargetRefused("must use port 443 or one of 1024 to 65535")
    # Escaped characters stay as they are ("%" is safe); characters outside ASCII are escaped now.
    path = quote(found["path"], safe=_PATH_SAFE)
    return Target(
        scheme=scheme,
        host=host,
        port=port,
        path=path if path.startswith("/") else f"/{path}",
        address=address,
        is_loopback_allowed=is_local,
        is_named=is_named,
    )


def check_addresses(target: Target, addresses: Sequence[str], forbidden: Sequence[Network] = ()) -> list[str]:
    """Check all addresses of a target, also against the operator's list, and return their canonical form, or refuse all."""
    if not addresses:
        raise TargetRefused("has a host without addresses")
    # All of them: the owner of the name server chooses the order, and the answer to a later look-up.
    judged = [_judge(text) for text in addresses]
    for address, _, address_is_public, is_loopback in judged:
        # The operator that named a host is responsible for its address.
        if not (target.is_named or (is_loopback if target.is_loopback_allowed else address_is_public)):
            raise NotPublic(f"leads to {address}, which is not a public address")
        if forbidden and _is_within(address, forbidden):
            raise TargetRefused(f"leads to {address}, which this service may not reach")
    return [text for _, text, *_ in judged]


@lru_cache(maxsize=4096)
def _judge(text: str) -> tuple[Address, str, bool, bool]:
    # Cached: we check the same few addresses before every attempt, and the result for an address never changes.
    address = ip_address(text)
    return address, str(address), is_public(address), _is_loopback(address)


def is_public(address: Address) -> bool:
    carried = _carried(address)
    if isinstance(carried, IPv4Address) and any(carried in network for network in _DENIED_IPV4):
        return False
    # None of these leads anywhere else; the end of an ISATAP tunnel also has its own network.
    if isinstance(address, IPv4Address) or address.ipv4_mapped is not None or address in _NAT64:
        return True
    return address.scope_id is None and address in _GLOBAL_IPV6 and not any(address in network for network in _DENIED_IPV6)


def _is_within(address: Address, networks: Sequence[Network]) -> bool:
    return any(one in network for network in networks for one in (address, _carried(address)))


def _is_loopback(address: Address) -> bool:
    # An address of 64:ff9b::/96 leads to a gateway, regardless of its IPv4 address.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _carried(address: Address) -> Address:
    """Return the IPv4 address inside an IPv6 address, to which its packets are sent, or the address itself."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64 or (int(address) >> 32) & 0xFDFF_FFFF == _ISATAP:
            return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def host_of(url: str) -> str:
    """The host of an accepted URL, as written in it."""
    authority = re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0]
    return authority[: authority.find("]") + 1] if authority.startswith("[") else authority.partition(":")[0]


def spell_host(host: str) -> list[str]:
    """Return the usual ASCII form of a host first, then the form in which people write it; raises ``TargetRefused``."""
    name, address = _parse_host(host)
    if address is not None:
        return [f"[{name}]" if ":" in name else name, host.lower()]
    try:
        return [name, name.encode().decode("idna")]
    except UnicodeError:
        return [name]


def _parse_host(text: str) -> tuple[str, Address | None]:
    if text.startswith("["):
        try:
            address = IPv6Address(text[1:-1])
        except ValueError:
            raise TargetRefused("has an IPv6 address that cannot be read") from None
        if address.scope_id is not None:
            raise TargetRefused("must not have an address with a zone")
        return str(address), address
    name = _ascii_name(text)
    labels = name.split(".")
    # A name whose last label is a number is an IPv4 address to some resolvers ("127.1", "0x7f000001"): only the
    # usual form passes.
    if _NUMBER.fullmatch(labels[-1]):
        try:
            address = IPv4Address(name)
        except ValueError:
            raise TargetRefused("must have its IPv4 address written as four decimal numbers") from None
        return str(address), address
    if len(name) > _HOST_LENGTH_MAX or not all(_LABEL.fullmatch(label) for label in labels):
        raise TargetRefused("has a host that cannot be read")
    return name, None


def _ascii_name(text: str) -> str:
    # One final dot names the same host. Anything else is folded, or "\uff11\uff12\uff17" would not be a number.
    if text.isascii():
        return text.lower().removesuffix(".")
    # Each character takes 5 us to encode, and may be folded to 18: the caller chooses how many there are.
    folded = unicodedata.normalize("NFKC", text).lower() if len(text) <= _HOST_LENGTH_MAX else text
    if len(folded) > _HOST_LENGTH_MAX:
        raise TargetRefused("has a host that cannot be read")
    try:
        return folded.encode("idna").decode().lower().removesuffix(".")
    except UnicodeError:
        raise TargetRefused("has a host that cannot be read") from None


def _check_name(host: str, address: Address | None) -> None:
    if address is not None:
        if not is_public(address):
            raise NotPublic(f"leads to {address}, which is not a public address")
    elif "." not in host:
        raise NotPublic("must have a host of more than one label")
    elif host.endswith(_DENIED_SUFFIXES):
        raise NotPublic("must not have a host of a private domain")


_HOPS_MAX: Final = 32


def client_address(peer: str, forwarded_for: str, trusted: Sequence[Network]) -> str:
    """Find the address that the failures of a token request count for; arguments as in ``sender_address``."""
    address = _find_sender(peer, forwarded_for, trusted)
    if isinstance(address, IPv6Address):
        # A caller with one IPv6 address has its whole /64.
        return str(IPv6Network((address, 64), strict=False))
    return peer if address is None else str(address)


recall_client_address: Final = lru_cache(1024)(client_address)


def sender_address(peer: str, forwarded_for: str, trusted: Sequence[Network]) -> str:
    """Find the address that a request comes from; ``forwarded_for`` is joined with commas, the oldest first, or empty."""
    address = _find_sender(peer, forwarded_for, trusted)
    return peer if address is None else str(address)


def _find_sender(peer: str, forwarded_for: str, trusted: Sequence[Network]) -> Address | None:
    address = _parse_address(peer)
    if address is None:
        return None
    # From right to left, and only as far as trusted proxies wrote it: any client can send this header, and if we trusted all of
    # it, each guess at a secret could come from a separate address.
    for hop in reversed(forwarded_for.rsplit(",", _HOPS_MAX)):
        if not any(address in network for network in trusted):
            break
        earlier = _parse_address(hop)
        if earlier is None:
            break
        address = earlier
    return address


def _parse_address(text: str) -> Address | None:
    # Proxies write addresses with a port, in brackets, with a zone, or IPv4 inside IPv6.
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
