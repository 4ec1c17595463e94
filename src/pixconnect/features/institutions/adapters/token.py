"""An account's token: one for all its calls, requested by one call at a time, renewed before it expires.

An institution's answer is validated: the token must fit a header, and its lifetime must be possible. A scope narrower than
requested is detected, since the institution reports it with 200.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec
import structlog
from msgspec import Struct, structs

from pixconnect.features.institutions.adapters.connection import (
    AnswerLost,
    BudgetSpent,
    CallBounds,
    CallPaces,
    InstitutionConnection,
    InstitutionHost,
    NoConnection,
    Unsent,
    parse_institution_host,
)
from pixconnect.features.institutions.adapters.message import BODY_MAX, MalformedAnswer, read_answer, write_request
from pixconnect.features.institutions.profiles.account_traits import AccountTraits, Pace
from pixconnect.features.institutions.profiles.profile import TokenTraits
from pixconnect.features.institutions.rules.account import AccountCertificate, Credential, InstitutionAccount, token_address
from pixconnect.platform.base.clock import Clock
from pixconnect.platform.base.entropy import Entropy

RENEWED_AFTER: Final = 0.8  # fraction of its life
PATIENCE_S: Final = 5.0
_LIFE_MAX_S: Final = 86_400
_VALUE: Final = re.compile("[!-~]{1,8000}")  # visible characters of ASCII, which fit into a header
_JSON: Final = "application/json"
_TO_SEND: Final = Pace(routes=("token",), burst=1, per_minute=1)

_log = structlog.get_logger(__name__)


class NoToken(Unsent):
    """There is no token; a refusal is one of the credential itself, unless only the requested scopes are refused."""

    def __init__(
        self, reason: str, wait: timedelta | None = None, *, is_refusal: bool = False, lacks_scopes: bool = False
    ) -> None:
        super().__init__(reason, wait, is_refusal=is_refusal)
        self.lacks_scopes = lacks_scopes


class Token(Struct, frozen=True, kw_only=True):
    value: str
    renewed_at_s: float  # by the monotonic clock
    ends_at_s: float
    granted: frozenset[str] | None  # its scopes, if the institution reports them

    def __repr__(self) -> str:
        return "Token(...)"


class CallParts(Struct, frozen=True, kw_only=True):
    connection: InstitutionConnection
    host: InstitutionHost
    account: InstitutionAccount
    credential: Credential
    traits: AccountTraits
    token: TokenTraits
    paces: CallPaces
    clock: Clock
    entropy: Entropy
    bounds: CallBounds
    certificates: Sequence[AccountCertificate]
    note: Callable[[str], None]  # receives each call's outcome, in one word


class Tokens:
    """Authorizes an account's calls by the credential itself, sent with each call."""

    outcome = "no_token"
    """Of a call that has got no token, for the metric: an institution that is away has refused none."""

    def __init__(self, parts: CallParts) -> None:
        self._credential, self._traits = parts.credential, parts.traits

    async def authorize(self) -> str:
        """Return the value of ``Authorization``; raises ``NoToken``."""
        return self._credential.client_secret

    def forget(self, authorization: str) -> None:
        """Discard a token that the institution rejected as expired."""

    async def read_granted(self) -> frozenset[str] | None:
        """Return our scopes, if the institution reports them; raises ``NoToken``."""
        return None

    async def lacks(self, scope: str) -> bool:
        """Whether the institution has reported that we lack this scope; raises ``NoToken``."""
        return False

    async def try_scopes(self, scopes: Sequence[str]) -> frozenset[str] | None:
        """Return which of these scopes the credential could have, if the institution reports it; raises ``NoToken``."""
        return None


class AccountTokens(Tokens):
    def __init__(self, parts: CallParts) -> None:
        super().__init__(parts)
        path = parts.token.path
        if parts.account.environment == "homologation":
            path = parts.traits.homologation_paths.get(path, path)
        # Whole addresses have their path; the host's prefix would be put before each.
        address = urlsplit(token_address(parts.account, parts.traits, path))
        self._host, self._path = parse_institution_host(f"{address.scheme}://{address.netloc}"), address.path
        self._connection, self._paces, self._clock = parts.connection, parts.paces, parts.clock
        self._life_s = parts.token.lifetime_s
        self._one_at_a_time = asyncio.Lock()
        self._token: Token | None = None
        self._asks_more = bool(parts.traits.asks_scopes and parts.traits.due_scopes)

    async def authorize(self) -> str:
        return f"Bearer {(await self._find()).value}"

    def forget(self, authorization: str) -> None:
        # Another call may have got a new one meanwhile.
        if self._token is not None and authorization == f"Bearer {self._token.value}":
            self._token = None

    async def read_granted(self) -> frozenset[str] | None:
        return (await self._find()).granted

    async def lacks(self, scope: str) -> bool:
        granted = (await self._find()).granted
        if granted is None:
            return self._traits.asks_scopes and scope in self._traits.due_scopes and not self._asks_more
        # Scopes in unknown words prove nothing.
        return scope not in granted and not granted.isdisjoint(self._traits.scopes)

    async def try_scopes(self, scopes: Sequence[str]) -> frozenset[str] | None:
        if not self._traits.asks_scopes:
            granted = await self.read_granted()
            return None if granted is None else granted & set(scopes)
        try:
            token = await self._request(scopes)
        except NoToken as refused:
            if refused.lacks_scopes:
                return frozenset()
            raise
        return None if token.granted is None else token.granted & set(scopes)

    async def _find(self) -> Token:
        if (token := self._usable()) is not None:
            return token
        async with self._one_at_a_time:
            # An earlier caller in the queue has got one for all.
            if (token := self._usable()) is not None:
                return token
            before = self._token
            try:
                self._token = await self._renew()
            except NoToken:
                # The old one is valid until it expires: a failed renewal does not remove it.
                if before is not None and self._clock.monotonic_s() < before.ends_at_s:
                    return before
                raise
            return self._token

    async def _renew(self) -> Token:
        if self._asks_more:
            try:
                return await self._request((*self._traits.scopes, *self._traits.due_scopes), self._traits.scopes)
            except NoToken as refused:
                if not refused.lacks_scopes:
                    raise
                # A credential that receives today keeps receiving, without its further scopes.
                self._asks_more = False
                _log.warning("the institution gives no token for charges with a due date", scopes=self._traits.due_scopes)
        return await self._request(None, self._traits.scopes)

    def _usable(self) -> Token | None:
        token = self._token
        return token if token is not None and self._clock.monotonic_s() < token.renewed_at_s else None

    async def _request(self, scopes: Sequence[str] | None, needed: Sequence[str] = ()) -> Token:
        query, headers, body = write_grant(self._traits, self._credential, scopes)
        try:
            await self._paces.take("token", PATIENCE_S)
        except BudgetSpent as refused:
            raise NoToken(f"no token: {refused.reason}", refused.retry_after) from None
        # During a pause, calls count as the request that caused it.
        self.outcome, asked_at_s = "no_token", self._clock.monotonic_s()
        try:
            request = write_request(self._host, "POST", self._path, query, headers, body)
            answer = await self._connection.exchange(self._host, request, BODY_MAX)
            content = read_answer(answer, self._clock.real_now())
        except ValueError as error:
            raise NoToken(f"no token: {error}") from None
        except (NoConnection, AnswerLost, MalformedAnswer) as error:
            self.outcome = "unreached" if isinstance(error, NoConnection) else "lost"
            raise self._pause(f"no token: {error}", None) from None
        # If the credential itself is wrong, the request with fewer scopes fails too.
        refused_by = (400, 401, 403) if needed else (400, 403)
        if scopes is not None and content.status in refused_by:
            raise NoToken("no token of these scopes", lacks_scopes=True)
        if not content.is_success:
            name = f" {content.name}" if content.name else ""
            reason = f"no token: the institution answered {content.status}{name}"
            self.outcome = "failed" if content.status >= 500 else "throttled" if content.status == 429 else "no_token"
            raise self._pause(reason, content.wait_s, is_refusal=content.status in (400, 401, 403))
        token = self._read(content.members, asked_at_s, needed)
        self._paces.note_success("token")
        return token

    def _pause(self, reason: str, asked_s: float | None, *, is_refusal: bool = False) -> NoToken:
        return NoToken(reason, timedelta(seconds=self._paces.pause("token", asked_s)), is_refusal=is_refusal)

    def _read(self, members: Mapping[str, object], asked_at_s: float, needed: Sequence[str]) -> Token:
        value, expires_in, scope = (members.get(name) for name in ("access_token", "expires_in", "scope"))
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            raise self._pause("no token: the answer has none that could be sent", None)
        if members.get("client_id", self._credential.client_id) != self._credential.client_id:
            raise self._pause("no token: the institution gave one of another client", None)
        life_s = expires_in if type(expires_in) is int and expires_in > 0 else self._life_s
        granted = frozenset(scope.split()) if isinstance(scope, str) else None
        missing = set(needed) - granted if granted is not None else set[str]()
        if missing:
            _log.warning("the institution grants less than receiving needs", missing=sorted(missing))
        life_s = min(life_s, _LIFE_MAX_S)
        return Token(
            value=value, renewed_at_s=asked_at_s + life_s * RENEWED_AFTER, ends_at_s=asked_at_s + life_s, granted=granted
        )


def open_tokens(parts: CallParts) -> Tokens:
    return Tokens(parts) if parts.traits.token_style == "none" else AccountTokens(parts)  # noqa: S105  a style, and no token


def open_sending_tokens(parts: CallParts) -> Tokens | None:
    """Open the separate tokens for sending; ``None`` if one token covers everything."""
    known = parts.traits
    if not known.asked_to_send:
        return None
    # With a separate pace, so that repeated refusals here do not hinder receiving. If an institution limits the number of
    # tokens, this pace has a share of it.
    others = [pace for pace in known.paces if "token" not in pace.routes]
    own = (_TO_SEND,) if len(others) < len(known.paces) else ()
    traits = structs.replace(known, scopes=known.asked_to_send, due_scopes=(), paces=(*own, *others))
    is_homologation = parts.account.environment == "homologation"
    paces = CallPaces(traits, parts.clock, parts.entropy, is_homologation=is_homologation)
    return open_tokens(structs.replace(parts, traits=traits, paces=paces))


def write_grant(
    traits: AccountTraits, credential: Credential, scopes: Sequence[str] | None = None
) -> tuple[dict[str, str], dict[str, str], bytes]:
    """Write the token request in the institution's style: query, headers and body."""
    style, query, form = traits.token_style, dict[str, str](), {"grant_type": "client_credentials"}
    headers = {"Content-Type": _JSON if style == "basic_json" else "application/x-www-form-urlencoded", "Accept": _JSON}
    if style in ("basic_json", "basic_form"):
        pair = f"{credential.client_id}:{credential.client_secret}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    else:
        form["client_id"] = credential.client_id
        # With a certificate alone there need not be one.
        if style != "certificate" or credential.client_secret:
            form["client_secret"] = credential.client_secret
    if style == "grant_in_query":
        query = {"grant_type": form.pop("grant_type")}
    if traits.asks_scopes:
        form["scope"] = " ".join(traits.scopes if scopes is None else scopes)
    body = msgspec.json.encode(form) if style == "basic_json" else urlencode(form, quote_via=quote).encode()
    return query, headers, body
