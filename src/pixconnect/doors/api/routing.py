"""Routes a path and a method to an operation, extracts path parameters, and identifies the caller.

The path is routed as sent: it is split before percent-decoding, so that ``%2F`` inside an ``external_id`` is part of the id,
and a trailing slash matches nothing unless a route ends in one. Only parameters are decoded, so that another spelling of a path
cannot evade a proxy's rule, and only after authentication: decoding one of 4,096 octets takes several times as long as the rest
of a refusal. A plus alone may be percent-encoded, since many libraries encode it. Nothing is redirected or repaired.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, Generic, TypeVar

from pixconnect.doors.api import decoding
from pixconnect.doors.api.operation import Parameter, Verifier
from pixconnect.kernel.rules.access import Caller, check_certificate
from pixconnect.platform.base import errors
from pixconnect.platform.base.address_rules import Network, client_address, recall_client_address, sender_address

Target = TypeVar("Target")

SEGMENT_MAX: Final = 4096  # in octets, before it is percent-decoded: 255 characters have 3,060 at most

OPEN_END: Final = "/{*}"
"""The end of a path that anything may follow, or nothing: institutions append words of their own to an address."""

REST: Final = "*}"  # the end of a path whose parameter is all the rest, with its slashes

_PLUSES: Final = ("%2B", "%2b")


class _Node(Generic[Target]):
    """One path segment: the operations that end here, those with an open end, and the possible next segments."""

    __slots__ = ("children", "is_open", "methods", "rest", "wildcard")

    def __init__(self) -> None:
        self.children: dict[bytes, _Node[Target]] = {}
        self.wildcard: _Node[Target] | None = None
        self.methods: dict[str, Target] = {}
        self.rest: dict[str, Target] = {}
        self.is_open = False

    def child(self, segment: str) -> "_Node[Target]":
        """The node of the next segment, made if missing."""
        if segment.startswith("{"):
            self.wildcard = self.wildcard or _Node()
            return self.wildcard
        node = self.children.setdefault(segment.encode(), _Node())
        for spelling in _PLUSES if "+" in segment else ():
            self.children[segment.replace("+", spelling).encode()] = node
        return node


_NO_PATH: Final = "there is no such path; /openapi.json has all paths"


class Router(Generic[Target]):
    """Finds the target of a request: routes are method, path with parameters in braces, and target."""

    def __init__(self, routes: Iterable[tuple[str, str, Target]]) -> None:
        self._root: _Node[Target] = _Node()
        self._fixed: dict[bytes, dict[str, Target]] = {}
        for method, path, target in routes:
            node = self._root
            named = path.removesuffix(OPEN_END)
            takes_rest = named.endswith(REST)
            for segment in (named.rpartition("/")[0] if takes_rest else named).split("/")[1:]:
                node = node.child(segment)
            node.is_open = path.endswith(OPEN_END)
            methods = node.rest if takes_rest else node.methods
            errors.ensure(method not in methods, f"two operations for {method} {path}")
            methods[method] = target
            # HEAD is GET whose body the server omits.
            if method == "GET":
                methods["HEAD"] = target
            # Most requests go to a path without a parameter: those are found without splitting.
            if "{" not in path:
                self._fixed[path.encode()] = node.methods

    def find(self, method: str, raw_path: bytes) -> tuple[Target, tuple[bytes, ...]]:
        """The target, and the parameters as they were sent, in the order of the path."""
        methods, parameters = self._fixed.get(raw_path), ()
        if methods is None:
            methods, parameters = self._walk(raw_path)
        target = methods.get(method)
        if target is None:
            allowed = tuple(sorted(methods))
            listed = f"; {raw_path.decode()}/list takes GET" if method == "GET" and raw_path + b"/list" in self._fixed else ""
            raise errors.MethodNotAllowed(f"this path takes {', '.join(allowed)}, not {method}{listed}", allowed)
        return target, parameters

    def _walk(self, raw_path: bytes) -> tuple[Mapping[str, Target], tuple[bytes, ...]]:
        node, parameters = self._root, ()
        segments = raw_path.split(b"/")[1:]
        for number, raw_segment in enumerate(segments):
            below = node.children.get(raw_segment)
            if below is None:
                if node.is_open:
                    return node.methods, parameters
                if node.rest and len(raw_path) <= SEGMENT_MAX:
                    return node.rest, (*parameters, b"/".join(segments[number:]))
                # An empty segment is no parameter: a double slash matches nothing, nor does a single one at the end.
                below = node.wildcard if 0 < len(raw_segment) <= SEGMENT_MAX else None
                if below is None:
                    raise errors.NotFound(_NO_PATH)
                parameters = (*parameters, raw_segment)
            node = below
        if not node.methods:
            further = ", ".join(f"/{segment.decode()}" for segment in node.children if b"%" not in segment)
            raise errors.NotFound(f"{_NO_PATH}, of which some go on with {further}" if further else _NO_PATH)
        return node.methods, parameters


_ID_MAX: Final = 2**53 - 1


def _read_id(text: str) -> int:
    number = decoding.read_integer("id", text)
    if not 1 <= number <= _ID_MAX:
        # No resource has such an id, and PostgreSQL cannot even represent some of them.
        raise errors.NotFound(f"id: there is nothing with the id {text[:20]}")
    return number


def _text(name: str, description: str) -> Parameter[str]:
    # Any text is valid: a wrong form matches nothing, which is NOT_FOUND and not BAD_REQUEST.
    return Parameter(name=name, read=str, schema=dict(type="string", minLength=1), description=description)


NONE: Final = Parameter[None](name="", read=lambda text: errors.ensure(not text, text), schema={}, description="")
PAGE: Final = _text("page", "The address of a file of the documentation, below its folder.")
ID: Final = Parameter[int](
    name="id",
    read=_read_id,
    schema=dict(type="integer", format="int64", minimum=1, maximum=_ID_MAX),
    description="The `id` that the service gave it.",
)
EXTERNAL_ID: Final = Parameter[str](
    name="externalId",
    read=lambda text: decoding.read_text("externalId", text, 255),
    schema=dict(type="string", minLength=1, maxLength=255),
    description="The `external_id` that you gave it, percent-encoded (`/` as `%2F`).",
)
TXID: Final = _text("txid", "The charge's `transaction_identification`.")
INFRACTION: Final = _text("infractionId", "The institution's name of the infraction, its `infraction_id`.")
TOKEN: Final = _text("token", "The end of the location's address.")
END_TO_END_ID: Final = _text("endToEndId", "The transfer's `end_to_end_id`.")
RETURN_IDENTIFICATION: Final = _text("returnIdentification", "The refund's `return_identification`.")


async def authenticate(verifier: Verifier, headers: Mapping[bytes, bytes], certificate: str | None) -> Caller:
    """Return the caller of a request; raises the errors of its ``verify``.

    Args:
        certificate: The thumbprint of the connection's client certificate.
    """
    # Two Authorization headers come joined with a comma, which no token contains: they are always malformed.
    authorization = headers.get(b"authorization")
    # Most tokens were verified a moment ago, and are answered from memory.
    caller = verifier.recall(authorization) if authorization is not None else None
    if caller is None:
        caller = await verifier.verify(authorization)
    # Not part of the cached result: the same token may come by two connections.
    check_certificate(caller, certificate)
    return caller


_REMEMBERED_LENGTH_MAX: Final = 64
_remember_sender = lru_cache(1024)(sender_address)


def read_address(headers: Mapping[bytes, bytes], peer: str, trusted_proxies: tuple[Network, ...]) -> str:
    """Return the address of a request's sender: behind a trusted proxy, the one that the proxy names."""
    forwarded_for = headers.get(b"x-forwarded-for", b"").decode("latin-1") if trusted_proxies else ""
    # Cached: reading an address takes as long as reading a small body, and the same ones come again and again.
    find = recall_client_address if len(forwarded_for) <= _REMEMBERED_LENGTH_MAX else client_address
    return find(peer, forwarded_for, trusted_proxies)


def read_sender(headers: Mapping[bytes, bytes], peer: str, trusted_proxies: tuple[Network, ...]) -> str:
    """Return the caller's address for the record of requests: the whole IPv6 address."""
    if not trusted_proxies:
        return peer
    forwarded_for = headers.get(b"x-forwarded-for", b"").decode("latin-1")
    find = _remember_sender if len(forwarded_for) <= _REMEMBERED_LENGTH_MAX else sender_address
    return find(peer, forwarded_for, trusted_proxies)
