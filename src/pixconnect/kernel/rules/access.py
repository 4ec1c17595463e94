"""Clients, their scopes, and the caller of a request.

A client belongs to one holder and has some of the scopes. Only the client has its secret; we store a keyed hash. Token
lifetimes and the limits on failed token requests follow real time, regardless of the sandbox clock.

Visitors of the console: an operator, who sees all holders, or a holder by one of its clients.
"""

import base64
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import Struct, structs

from pixconnect.kernel.feature import Scope, list_features
from pixconnect.platform.base import errors

_KERNEL: Final = (
    Scope("charge.read", "reading and listing charges", ("charge",)),
    Scope("charge.write", "creating charges"),
    Scope("transfer.read", "reading and listing transfers", ("transfer", "spent")),
    Scope("transfer.write", "starting transfers"),
    Scope("refund.read", "reading and listing refunds", ("refund",)),
    Scope("refund.write", "returning a received Pix"),
    Scope("ledger.read", "the balance, the transactions", ("ledger entry",)),
    Scope("webhook.read", "reading webhook endpoints, deliveries and events", ("event", "delivery", "endpoint")),
    Scope("webhook.write", "changing endpoints, redelivery and replay"),
)
_ALL: Final = sorted(
    (*_KERNEL, *(scope for feature in list_features() for scope in feature.scopes)), key=lambda scope: scope.is_standard
)
SCOPES: Final = tuple(scope.name for scope in _ALL)  # in display order
OWN_SCOPES: Final = tuple(scope.name for scope in _ALL if not scope.is_standard)
"""Scopes of our own API; the others belong to the central bank's Pix API, which requires `webhook.*` too."""
_PARTS: Final = tuple(part for feature in list_features() for part in feature.scope_parts)
SCOPE_TEXTS: Final = {
    scope.name: ", ".join([scope.text, *(text for name, text in _PARTS if name == scope.name)]) for scope in _ALL
}
if TYPE_CHECKING:
    ScopeName: TypeAlias = str
else:
    ScopeName = Literal[SCOPES]

AUDIENCE = "pix-connect"  # the tokens' ``aud``

IN_FORCE_AFTER_S = 1.0  # disabling a client, a holder or a signing key takes effect on every process after this

FAILURES_MAX = 10  # failed token requests in the window, of a client_id and of an address, before 429
FAILURES_WINDOW_S = 60  # how long a failed token request counts

WRONG_CODES_MAX: Final = 10
"""Wrong codes of an operator's second factor, with the right password, that lock the account until it is unlocked."""
WRONG_CODE_COUNTS: Final = timedelta(days=1)
"""How long a wrong code counts, unless it was the last permitted one.

Three of a million codes are valid at a time. An attacker who has the password and stays below the limit finds one within a year
with a probability of 1 %; nine tries an hour would make it 21 %.
"""

_CLIENT_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Caller(Struct, frozen=True, kw_only=True):
    client_id: str
    holder_id: int
    scopes: frozenset[str]
    # The thumbprint of the client certificate that the token is bound to (RFC 8705); an unbound token works with any.
    certificate: str | None = None
    token_id: str | None = None  # its ``jti``; console sessions have none
    peer: str = ""  # the address that the request comes from
    request_id: str | None = None
    operator: str | None = None  # the audit's name of an operator who acts for the holder; then there is no client
    traceparent: str | None = None  # the request's trace, if traces are exported

    def asking(self, peer: str, request_id: str, traceparent: str | None = None) -> "Caller":
        """Return the caller with the request that is being answered."""
        return structs.replace(self, peer=peer, request_id=request_id, traceparent=traceparent)


class Client(Struct, frozen=True, kw_only=True):
    client_id: str
    holder_id: int
    name: str
    scopes: tuple[str, ...]  # in the order of SCOPES
    created_at: datetime
    rotated_at: datetime | None = None
    disabled_at: datetime | None = None
    tokens_from: datetime | None = None
    """Tokens issued earlier are refused. A whole second, because tokens are dated in whole seconds."""
    certificate: str | None = None
    """The thumbprint of the certificate required to get and use its tokens."""
    certificate_expires_at: datetime | None = None
    """The certificate's end, in real time; ``None`` too if an older version bound the client."""


class IssuedClient(Struct, frozen=True, kw_only=True):
    """A client with its secret, which is shown once and never again."""

    client: Client
    client_secret: str  # 43 random characters, 256 bits


class AccessToken(Struct, frozen=True, kw_only=True):
    access_token: str
    expires_in_s: int
    scopes: tuple[str, ...]  # in the order of SCOPES


def is_client_id(text: str) -> bool:
    return _CLIENT_ID.fullmatch(text) is not None


def make_app_id(client_id: str, client_secret: str) -> str:
    """Join client id and secret, for institutions that issue no tokens."""
    return base64.b64encode(f"{client_id}:{client_secret}".encode()).decode()


def end_tokens_at(now: datetime) -> datetime:
    """Find the ``tokens_from`` that refuses every token issued until now."""
    # The next whole second: the order of two tokens of this second is unknown.
    return now.replace(microsecond=0) + timedelta(seconds=1)


def issue_at(now: datetime, tokens_from: datetime | None) -> datetime:
    """Date a new token (``iat``), so that a client whose tokens were revoked can log in again at once."""
    # Up to a second ahead, or the new token would be refused with those that were ended.
    return now if tokens_from is None else max(now, tokens_from)


def check_certificate(caller: Caller, certificate: str | None) -> None:
    """Refuse a token bound to another certificate than the one that its connection presented."""
    if caller.certificate is not None and caller.certificate != certificate:
        raise errors.Unauthorized(
            "Authorization: the token is bound to a client certificate, and this connection did not show it"
        )


def authorize(caller: Caller, scope: str) -> None:
    if scope not in caller.scopes:
        raise errors.Forbidden(f"the token lacks the scope {scope}")


def parse_scopes(scopes: Sequence[str]) -> tuple[str, ...]:
    """Read scopes in any order; the result has each once, in the order of ``SCOPES``."""
    for scope in scopes:
        if scope not in SCOPES:
            raise errors.BadRequest(f"scope: must be one of {', '.join(SCOPES)}")
    if not scopes:
        raise errors.BadRequest("scope: a client needs at least one")
    return tuple(scope for scope in SCOPES if scope in scopes)


Role = Literal["reader", "operator"]
VisitorKind = Literal["operator", "sandbox", "holder"]

SESSION_IDLE_MAX: Final = timedelta(minutes=30)  # a session idle for this long has ended
SESSION_LENGTH_MAX: Final = timedelta(hours=12)
LINK_LASTS: Final = timedelta(hours=12)
SEEN_EVERY: Final = timedelta(minutes=1)
"""Minimum interval between updates of a session's end, so that viewing a page writes nothing."""

RECOVERY_CODES_COUNT: Final = 10
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._@-]{0,62}")


READ_SCOPES: Final = {kind: scope.name for scope in _ALL for kind in scope.kinds}
"""The scope for viewing each kind; other kinds are for operators alone."""


class Viewer(Struct, frozen=True, kw_only=True):
    holder_id: int | None  # ``None`` is all holders
    scopes: frozenset[str]

    def may(self, scope: ScopeName) -> bool:
        return scope in self.scopes

    def may_see(self, kind: str) -> bool:
        scope = READ_SCOPES.get(kind)
        return self.holder_id is None if scope is None else self.may(scope)

    def require_sight(self, kind: str) -> None:
        self.require(READ_SCOPES[kind])

    def require(self, scope: ScopeName) -> None:
        if not self.may(scope):
            raise errors.Forbidden(f"this client lacks the scope {scope}")


class Visitor(Struct, frozen=True, kw_only=True):
    """A person who has signed in."""

    session_id: int
    kind: VisitorKind
    name: str  # the operator's, or the client_id
    # A reader changes nothing. A holder's visitor may do what the client's scopes allow.
    role: Role
    holder_id: int | None
    scopes: frozenset[str]
    csrf_token: str
    created_at: datetime
    expires_at: datetime

    @property
    def may_act(self) -> bool:
        return self.role == "operator"

    @property
    def party(self) -> int | str:
        """The party for fair shares: a holder with all its visitors, or an operator."""
        return self.holder_id or self.audit_name

    @property
    def audit_name(self) -> str:
        return f"client {self.name}" if self.kind == "holder" else f"console {self.name}"

    def viewer(self, chosen_holder_id: int | None = None) -> Viewer:
        """Its view of the chosen holder; a holder's visitor always sees its own."""
        return Viewer(holder_id=self.holder_id or chosen_holder_id, scopes=self.scopes)

    def caller(self, chosen_holder_id: int | None = None, peer: str = "") -> Caller:
        """The caller for use cases of the API that change something, with its address."""
        if not self.may_act:
            raise errors.Forbidden("a reader changes nothing")
        holder_id = self.holder_id or chosen_holder_id
        if holder_id is None:
            raise errors.BadRequest("holder_id: choose a holder first")
        operator = None if self.kind == "holder" else self.audit_name
        return Caller(client_id=self.name, holder_id=holder_id, scopes=self.scopes, peer=peer, operator=operator)


ALL_SCOPES: Final = frozenset(SCOPES)
READING_SCOPES: Final = frozenset[str](scope for scope in SCOPES if scope.endswith(".read"))
"""A reader's scopes; actors' secrets, such as a valid signature, need one of the other scopes."""


def is_operator_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def check_operator_name(name: str) -> None:
    if not is_operator_name(name):
        raise errors.BadRequest("name: must have 1 to 63 of a-z, 0-9, '.', '_', '@' and '-', and begin with one of the first")


def end_session_at(created_at: datetime, now: datetime) -> datetime:
    """When a session that is used now ends."""
    return min(now + SESSION_IDLE_MAX, created_at + SESSION_LENGTH_MAX)
