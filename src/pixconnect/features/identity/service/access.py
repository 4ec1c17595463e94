"""Operators' actions on clients, and the verification of clients' tokens on every request. ``token_issuer.py`` issues them.

Every function that makes or changes a client raises ``NotFound`` if the holder or client does not exist.

A verified token is cached with its caller until it expires. The cache may be used only while the last successful reading of
``access_revision`` is under a second old. So every process refuses a disabled client, an ended token and a revoked key within a
second, and admits no caller while the database is unreachable.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import LiteralString

from msgspec import UNSET, Struct

from pixconnect.features.identity.service.keyring import Keyring
from pixconnect.features.identity.tables import access as access_store
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.context import Context, Operator, write_alone
from pixconnect.kernel.rules import access as access_rules
from pixconnect.kernel.rules.access import AUDIENCE, IN_FORCE_AFTER_S, SCOPES, Caller, Client, IssuedClient
from pixconnect.kernel.tables import holder as holder_store
from pixconnect.kernel.tables import origin as origin_store
from pixconnect.kernel.tables.origin import ORIGIN_KINDS, Origin
from pixconnect.platform import jose
from pixconnect.platform.base import errors
from pixconnect.platform.base.entropy import Entropy, SealBroken, SecretBox
from pixconnect.platform.bounded_cache import BoundedCache
from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.pool import Connection, Pool
from pixconnect.platform.shared_look import SharedLook

_CLIENT_ID_LENGTH = 24
_SECRET_LENGTH = 43  # characters, of 62 letters and digits: 256 bits
_NAME_LENGTH_MAX = 255
SHOWN_MAX = 10_000  # maximum of a client's acts shown at once

CACHED_TOKENS_MAX = 8192  # about 1 KiB each; the least recently used are dropped
TOKEN_LENGTH_MAX = 4096
FRESH_FOR_S = IN_FORCE_AFTER_S  # how long a successful reading of the revision counts, from its beginning
LOOK_INTERVAL_S = 0.3  # how often a task reads while requests come in, so that hardly any request has to
LOOK_TIMEOUT_S = 0.9  # below ``FRESH_FOR_S``: a shared reading must still be fresh for the last of its callers

SCHEME = b"Bearer "
_UNKNOWN_KEY = "Authorization: the token is signed with an unknown key"


class VerifiedToken(Struct, frozen=True, kw_only=True):
    caller: Caller
    kid: str
    issued_at_s: int  # Unix time, as the token says
    expires_at_s: int


async def create_client(
    context: Operator, holder_id: int, name: str, scopes: Sequence[str], *, client_id: str = "", client_secret: str = ""
) -> IssuedClient:
    """Create a client of a holder; its secret is returned here and cannot be read again.

    Args:
        client_id: An unused one; if empty, it is generated, as is its secret.
    """
    if not 1 <= len(name) <= _NAME_LENGTH_MAX or not name.isprintable():
        raise errors.BadRequest(f"name: must have 1 to {_NAME_LENGTH_MAX} printable characters")
    # No client gets all scopes of real money by oversight: in live mode the operator must name them.
    client = Client(
        client_id=client_id or make_client_id(context.entropy),
        holder_id=holder_id,
        name=name,
        scopes=access_rules.parse_scopes(scopes or (SCOPES if context.policy.is_sandbox else ())),
        created_at=context.clock.real_now(),
    )
    client_secret = client_secret or make_webhook_secret(context.entropy)
    secret_hash, *_ = hash_secret(context.secret_box, client.client_id, client_secret)
    async with write_alone(context.pool) as connection:
        holder = await holder_store.find(connection, holder_id)
        errors.found(holder, f"holder_id: there is no holder {holder_id}").check_not_succeeded()
        await access_store.insert(connection, client, secret_hash, context.secret_box.key_id)
        await audit.record(context, connection, "client create", f"client {client.client_id}", after=client)
    return IssuedClient(client=client, client_secret=client_secret)


async def set_scopes(context: Operator, client_id: str, scopes: Sequence[str], *, added: Sequence[str] = ()) -> Client:
    """Replace a client's scopes (none: keep them) and add others; if it loses one, its tokens are refused."""
    if not scopes and not added:
        raise errors.BadRequest("scope: name at least one")
    async with write_alone(context.pool) as connection:
        before = await _lock(connection, client_id)
        wanted = access_rules.parse_scopes([*(scopes or before.scopes), *added])
        # A token contains its scopes, so tokens with a lost scope must end.
        is_narrower = not set(before.scopes) <= set(wanted)
        tokens_from = access_rules.end_tokens_at(context.clock.real_now()) if is_narrower else None
        client = _found(
            await access_store.change(connection, access_store.SET_SCOPES, client_id, list(wanted), tokens_from), client_id
        )
        await audit.record(context, connection, "client set", f"client {client_id}", before=before, after=client)
    return client


async def set_certificate(
    context: Operator, client_id: str, certificate: str | None, expires_at: datetime | None = None
) -> Client:
    """Bind a client to a certificate by its thumbprint, or to none; every token issued until now is refused."""
    tokens_from = access_rules.end_tokens_at(context.clock.real_now())
    values = certificate, expires_at, tokens_from
    return await _change(context, "client certificate", client_id, access_store.SET_CERTIFICATE, *values)


async def rotate_client(context: Operator, client_id: str) -> IssuedClient:
    """Replace a client's secret: the old one is refused at once, and every token issued until now within a second."""
    client_secret = make_webhook_secret(context.entropy)
    secret_hash, *_ = hash_secret(context.secret_box, client_id, client_secret)
    # Real time, as for all tokens: the sandbox's clock must not revive an old one.
    now = context.clock.real_now()
    values = secret_hash, context.secret_box.key_id, now, access_rules.end_tokens_at(now)
    client = await _change(context, "client rotate", client_id, access_store.ROTATE, *values)
    return IssuedClient(client=client, client_secret=client_secret)


async def disable_client(context: Operator, client_id: str) -> Client:
    """Disable a client, on every process within a second; its tokens are refused for ever."""
    now = context.clock.real_now()
    values = now, access_rules.end_tokens_at(now)
    return await _change(context, "client disable", client_id, access_store.DISABLE, *values)


async def enable_client(context: Operator, client_id: str) -> Client:
    """Enable a client; it needs new tokens."""
    return await _change(context, "client enable", client_id, access_store.ENABLE)


async def delete_client(context: Operator, client_id: str) -> Client:
    """Delete a client: its tokens are refused on every process within a second, and its secret is invalid."""
    async with write_alone(context.pool) as connection:
        client = await _lock(connection, client_id)
        await access_store.delete(connection, client_id)
        await audit.record(context, connection, "client delete", f"client {client_id}", before=client)
    return client


async def revoke_tokens(context: Operator, client_id: str) -> Client:
    """Refuse all tokens issued to a client until now, on every process within a second; it can get new ones."""
    tokens_from = access_rules.end_tokens_at(context.clock.real_now())
    return await _change(context, "client revoke-tokens", client_id, access_store.END_TOKENS, tokens_from)


async def list_clients(context: Operator, holder_id: int) -> list[Client]:
    """The holder's clients, oldest first."""
    return await access_store.list_of_holder(context.pool, holder_id)


async def _change(context: Operator, verb: str, client_id: str, how: LiteralString, *values: object) -> Client:
    async with write_alone(context.pool) as connection:
        before = await _lock(connection, client_id)
        client = _found(await access_store.change(connection, how, client_id, *values), client_id)
        await audit.record(context, connection, verb, f"client {client_id}", before=before, after=client)
    return client


async def _lock(connection: Connection, client_id: str) -> Client:
    return _found(await access_store.lock(connection, client_id), client_id)


def _found(client: Client | None, client_id: str) -> Client:
    return errors.found(client, f"client_id: there is no client {client_id}")


def make_client_id(entropy: Entropy) -> str:
    return entropy.token(_CLIENT_ID_LENGTH)


def make_webhook_secret(entropy: Entropy) -> str:
    return entropy.token(_SECRET_LENGTH)


def hash_secret(secret_box: SecretBox, client_id: str, client_secret: str) -> Sequence[bytes]:
    """Return the secret's hash under the key in use, and then under any previous one."""
    # With the client_id, so that equal secrets have different hashes.
    text = f"{client_id}:{client_secret}"
    return secret_box.fingerprints(text.encode("utf-8", "surrogatepass"), "client_secret")


async def list_activity(  # noqa: PLR0913  each narrows the search
    context: Operator,
    client_id: str,
    initial_at: datetime,
    final_at: datetime,
    *,
    kind: str | None = None,
    token_id: str | None = None,
    peer: str | None = None,
    holder_id: int | None = None,
    count_max: int = SHOWN_MAX,
) -> list[Origin]:
    """List the requests of a client of this holder, by default the caller, in an interval, newest first.

    Raises:
        BadRequest: There are no requests of this kind.
    """
    if kind not in (None, *ORIGIN_KINDS):
        raise errors.BadRequest(f"kind: must be one of {', '.join(ORIGIN_KINDS)}")
    if holder_id is None:
        found = await access_store.find(context.pool, client_id)
        reason = "if it was deleted, name its holder by --holder-id"
        holder_id = errors.found(found, f"client_id: there is no client {client_id}; {reason}").client.holder_id
    return await origin_store.list_of_client(
        context.pool,
        holder_id,
        client_id,
        initial_at,
        final_at,
        kinds=ORIGIN_KINDS if kind is None else (kind,),
        jti=token_id,
        peer=peer,
        count_max=count_max,
    )


class TokenVerifier:
    def __init__(self, context: Context, keyring: Keyring, pool: Pool) -> None:
        # Not the requests' pool: callers that read much must not block the verification of others.
        self._pool = pool
        self._issuer = context.policy.auth_url
        self._keyring = keyring
        self._real_now = context.clock.real_now
        self._monotonic_s = context.clock.monotonic_s
        self._cached = BoundedCache[bytes, VerifiedToken](CACHED_TOKENS_MAX)
        self._revision: int | None = None
        self._fresh_until_s = float("-inf")
        self._unix_minus_monotonic_s = 0.0
        self._was_asked = False
        self._is_used = asyncio.Event()
        self._shared_look = SharedLook(self._look_once, "look at revoked tokens")

    def recall(self, authorization: bytes) -> Caller | None:
        """Return the caller of an earlier verified header, without waiting; ``None`` if only ``verify`` can decide."""
        token = self._cached.get(authorization)
        if token is None:
            return None
        self._was_asked = True
        now_s = self._monotonic_s()
        # The wall clock is read at each reading, at most a second ago: here it would double the cost.
        if now_s >= self._fresh_until_s or now_s + self._unix_minus_monotonic_s >= token.expires_at_s:
            return None
        self._cached.move_to_end(authorization)
        return token.caller

    def recall_party(self, authorization: bytes) -> int | None:
        """Return the header's party at its last verification, for fair shares only: it authorizes nothing."""
        token = self._cached.get(authorization)
        return None if token is None else token.caller.holder_id

    async def verify(self, authorization: bytes | None) -> Caller:
        """Identify the caller by the header's value, which is ``None`` without a header.

        Raises:
            Unauthorized: Missing, malformed, not ours, expired, or of a client since disabled.
            ServiceUnavailable: It cannot be verified at the moment.
        """
        if authorization is None:
            raise errors.Unauthorized("Authorization: missing; send 'Bearer <access token>'")
        known = self._cached.get(authorization)
        if known is not None and self._real_now().timestamp() < known.expires_at_s:
            await self._look_if_stale()
            caller = self.recall(authorization)
            # It has read for itself: only a later caller needs the next reading.
            self._was_asked = False
            if caller is not None:
                return caller
        kid, claims = await self._read_claims(authorization)
        if self._real_now().timestamp() >= claims.exp:
            self._cached.pop(authorization, None)
            raise errors.Unauthorized("Authorization: token expired")
        caller = Caller(
            client_id=claims.sub,
            holder_id=int(claims.holder_id),
            scopes=frozenset(claims.scope.split()),
            certificate=None if claims.cnf is UNSET else claims.cnf.thumbprint,
            token_id=claims.jti,
        )
        await self._look_if_stale()
        cached = self._cached
        revision = await self._check_active(caller, claims.iat)
        # The key may have been revoked during the query.
        if self._keyring.token_verification_key(kid) is None:
            raise errors.Unauthorized(_UNKNOWN_KEY)
        # If the client was read at another revision than the known one, the next reading might not drop this token.
        if revision == self._revision and cached is self._cached:
            token = VerifiedToken(caller=caller, kid=kid, issued_at_s=claims.iat, expires_at_s=claims.exp)
            self._was_asked = True
            self._cached.keep(authorization, token)
        return caller

    def forget_all(self) -> None:
        """Drop all cached callers: the database is another one."""
        # A new cache, so that late answers to earlier queries do not get into it.
        self._cached = BoundedCache[bytes, VerifiedToken](CACHED_TOKENS_MAX)
        self._revision, self._fresh_until_s = None, float("-inf")

    async def keep_fresh(self, look_every_s: float = LOOK_INTERVAL_S) -> None:
        """Read repeatedly while requests come in; run this as a task and cancel it at the end."""
        while True:
            await asyncio.sleep(look_every_s)
            if self._was_asked:
                self._was_asked = False
                await self._shared_look.look()
            elif self._monotonic_s() >= self._fresh_until_s:
                # The next caller finds the reading too old and reads itself, which ends the wait.
                self._is_used.clear()
                await self._is_used.wait()

    async def _read_claims(self, authorization: bytes) -> tuple[str, jose.Claims]:
        token = authorization[len(SCHEME) :]
        # A scheme is compared without regard to case (RFC 9110, 11.1).
        is_bearer = authorization[: len(SCHEME)].lower() == SCHEME.lower()
        if not is_bearer or not token or b" " in token or len(token) > TOKEN_LENGTH_MAX:
            raise errors.Unauthorized("Authorization: must be 'Bearer', one space and an access token")
        try:
            kid = jose.read_token_kid(token)
            key = self._keyring.token_verification_key(kid)
            # Another process may have made the key since we last read them.
            if key is None:
                await self._keyring.look_for_new(self._pool)
                key = self._keyring.token_verification_key(kid)
            if key is None:
                raise errors.Unauthorized(_UNKNOWN_KEY)
            claims = jose.verify_token(token, key)
        except jose.TokenInvalid as error:
            raise errors.Unauthorized(f"Authorization: the token is invalid: {error}") from None
        if claims.iss != self._issuer or claims.aud != AUDIENCE:
            raise errors.Unauthorized("Authorization: the token is of another issuer or for another audience")
        return kid, claims

    async def _check_active(self, caller: Caller, issued_at_s: int) -> int:
        try:
            async with asyncio.timeout(LOOK_TIMEOUT_S):
                clients = await access_store.read_client_states(self._pool, [caller.client_id])
        except DATABASE_FAILED:
            raise errors.ServiceUnavailable("the database gives no answer") from None
        if not clients.is_good(caller, issued_at_s):
            raise errors.Unauthorized(
                "Authorization: the token was revoked"
                if caller.client_id in clients.tokens_from_s
                else "Authorization: the token's client or holder is disabled"
            )
        return clients.revision

    async def _look_if_stale(self) -> None:
        if self._monotonic_s() < self._fresh_until_s:
            return
        if not await self._shared_look.look():
            raise errors.ServiceUnavailable("the database gives no answer")

    async def _look_once(self) -> bool:
        # Before the query is sent: a revocation during it must still be seen within a second.
        began_at_s = self._monotonic_s()
        self._is_used.set()
        try:
            async with asyncio.timeout(LOOK_TIMEOUT_S):
                revision = await access_store.read_revision(self._pool)
                if revision != self._revision:
                    await self._drop_revoked()
        except (errors.ServiceUnavailable, *DATABASE_FAILED):
            return False
        self._fresh_until_s = began_at_s + FRESH_FOR_S
        self._unix_minus_monotonic_s = self._real_now().timestamp() - self._monotonic_s()
        return True

    async def _drop_revoked(self) -> None:
        client_ids = {token.caller.client_id for token in self._cached.values()}
        clients = await access_store.read_client_states(self._pool, sorted(client_ids))
        # After the clients, so that the keys are at least as new as the noted revision. A key that cannot be opened can still
        # verify; whether this process can sign is another question.
        with suppress(SealBroken):
            await self._keyring.reload(self._pool)
        # Also the tokens cached during the query, perhaps from before the change: they are verified again.
        for authorization, token in list(self._cached.items()):
            is_good = clients.is_good(token.caller, token.issued_at_s)
            if not is_good or self._keyring.token_verification_key(token.kid) is None:
                del self._cached[authorization]
        self._revision = clients.revision
