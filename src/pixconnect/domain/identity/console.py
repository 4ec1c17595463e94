"""Visitors of the console: an operator, who sees all holders, or a holder by one of its clients."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec import Struct

from pixconnect.domain.frame import errors
from pixconnect.domain.identity.access import SCOPES, Caller, Scope

Role = Literal["reader", "operator"]
VisitorKind = Literal["operator", "sandbox", "holder"]

SESSION_IDLE_MAX: Final = timedelta(minutes=30)
"""A session that nobody uses for so long is over."""
SESSION_LENGTH_MAX: Final = timedelta(hours=12)
LINK_LASTS: Final = timedelta(hours=12)
SEEN_EVERY: Final = timedelta(minutes=1)
"""A session's end is moved on at most so often: to look at a page writes nothing."""

RECOVERY_CODES_COUNT: Final = 10
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._@-]{0,62}")


READ_SCOPES: Final = dict[str, Scope](
    (
        ("charge", "charge.read"),
        ("transfer", "transfer.read"),
        ("refund", "refund.read"),
        ("infraction", "infraction.read"),
        ("ledger entry", "ledger.read"),
        ("event", "webhook.read"),
        ("delivery", "webhook.read"),
        ("endpoint", "webhook.read"),
        ("spent", "transfer.read"),
    )
)
"""Which scope shows what; things of another kind are for operators alone."""


class Viewer(Struct, frozen=True, kw_only=True):
    """What a visitor may see."""

    holder_id: int | None
    """``None`` is all holders."""
    scopes: frozenset[str]

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes

    def may_see(self, kind: str) -> bool:
        scope = READ_SCOPES.get(kind)
        return self.holder_id is None if scope is None else self.may(scope)

    def require(self, scope: Scope) -> None:
        if not self.may(scope):
            raise errors.Forbidden(f"this client lacks the scope {scope}")


class Visitor(Struct, frozen=True, kw_only=True):
    """A person who has signed in."""

    session_id: int
    kind: VisitorKind
    name: str
    """The operator's, or the client_id."""
    role: Role
    """A reader changes nothing. A holder's visitor may do what the client's scopes allow."""
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
        """What it may see of the chosen holder; a holder's visitor sees its own, whatever was chosen."""
        return Viewer(holder_id=self.holder_id or chosen_holder_id, scopes=self.scopes)

    def caller(self, chosen_holder_id: int | None = None, peer: str = "") -> Caller:
        """The caller of a use case of the API that makes a change, with its address."""
        if not self.may_act:
            raise errors.Forbidden("a reader changes nothing")
        holder_id = self.holder_id or chosen_holder_id
        if holder_id is None:
            raise errors.BadRequest("holder_id: choose a holder first")
        operator = None if self.kind == "holder" else self.audit_name
        return Caller(client_id=self.name, holder_id=holder_id, scopes=self.scopes, peer=peer, operator=operator)


ALL_SCOPES: Final = frozenset[str](SCOPES)
"""Those of an operator."""
READING_SCOPES: Final = frozenset[str](scope for scope in SCOPES if scope.endswith(".read"))
"""Those of a reader: what only who acts may see, such as a signature that is good now, needs a scope of the others."""


def is_operator_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def check_operator_name(name: str) -> None:
    if not is_operator_name(name):
        raise errors.BadRequest(
            "name: must have 1 to 63 of a-z, 0-9, '.', '_', '@' and '-', and begin with one of the first"
        )


def end_session_at(created_at: datetime, now: datetime) -> datetime:
    """When a session that is used now ends."""
    return min(now + SESSION_IDLE_MAX, created_at + SESSION_LENGTH_MAX)
