"""Issues access tokens to clients that prove their secret.

Guessing is limited: ten failures a minute for an address, and ten for a client_id::

    request ─► waiting ones are checked together ─► right: a token
               └► anything else, and other requests of its address meanwhile ─► judged alone

A request checked alone is checked and counted in one transaction, which no other request of its address overlaps: so of a
hundred concurrent guesses only ten pass. The check of a batch counts no failure, and admits no request from an address while
one of its requests is checked alone.
"""

import hashlib
import hmac
import math
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import structlog
from msgspec import UNSET, Struct

from pixconnect.features.identity.service.access import hash_secret
from pixconnect.features.identity.service.keyring import Keyring
from pixconnect.features.identity.tables import access as access_store
from pixconnect.features.identity.tables.access import StoredClient
from pixconnect.kernel.flows.context import Core
from pixconnect.kernel.rules import access as access_rules
from pixconnect.kernel.rules.access import AUDIENCE, FAILURES_MAX, FAILURES_WINDOW_S, AccessToken, Client
from pixconnect.platform import jose, logging
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import RatePolicy
from pixconnect.platform.base.entropy import SecretBox
from pixconnect.platform.bounded_cache import BoundedCache
from pixconnect.platform.flow.batches import Batches
from pixconnect.platform.flow.shares import FairSemaphore
from pixconnect.platform.pool import Connection

_log = structlog.get_logger(__name__)

JUDGED_TOGETHER_MAX = 6  # token requests under way at once in one process, checked as a batch
JUDGED_AT_ONCE_MAX = 2  # concurrent single checks: each uses a database connection
WAITING_MAX = 256  # token requests that are checked or wait; further ones are refused
LIMITED_CLIENT_KNOWN_S = 1.0  # how long the right secret of a limited client is cached: its owner may have replaced it
_LIMITED_REMEMBERED_MAX = 4096


class TokenRequest(Struct, frozen=True, kw_only=True):
    client_id: str | None
    client_secret: str | None
    grant_type: str | None = "client_credentials"
    address: str  # the address whose failures are counted, found by ``client_address``
    certificate: str | None = None  # the thumbprint of the connection's client certificate
    # The token's scopes, as far as the client has them; all of the client's if ``None``.
    scopes: Sequence[str] | None = None
    lifetime_s: int | None = None  # ``None`` is the setting
    # The certificate names this client and replaces a missing secret: the token is bound to it.
    is_certified: bool = False
    # Its client logs in with each request, so failures of others at its address must not block it.
    is_every_request: bool = False

    @property
    def limited_as(self) -> str:
        """The party that waits after too many failures: all of the address, or only users of these same credentials there."""
        return f"{self.address} {self.client_id}:{self.client_secret}" if self.is_every_request else self.address


class ScopeNotGranted(errors.BadRequest):
    """The client has none of the requested scopes."""


class TokenIssuer:
    """Issues the tokens of one process, a few at a time, to each address in turn.

    A flood of token requests must not use up the database's connections: only few are checked alone, few wait, and known
    offenders are refused without the database.
    """

    def __init__(self, context: Core, keyring: Keyring, waiting_max: int = WAITING_MAX) -> None:
        self._context = context
        self._keyring = keyring
        queued_max = max(1, waiting_max - JUDGED_TOGETHER_MAX)
        self._semaphore = FairSemaphore(JUDGED_TOGETHER_MAX, waiting_max=queued_max, what="token requests")
        # All concurrent requests may wait for it, even of one address.
        self._alone = FairSemaphore(JUDGED_AT_ONCE_MAX, waiting_max=2 * JUDGED_TOGETHER_MAX, what="token requests")
        self._batches = Batches(self._look, JUDGED_TOGETHER_MAX)
        self._judged_alone = set[str]()  # addresses with one request checked alone, or about to be
        self._limited_until_s = BoundedCache[str, float](_LIMITED_REMEMBERED_MAX)
        self._limited_clients = BoundedCache[bytes, _LimitedClient](_LIMITED_REMEMBERED_MAX)
        self._guesses_at_s = BoundedCache[str, deque[float]](_LIMITED_REMEMBERED_MAX)
        """When an address last sent guesses at a limited client."""

    async def login(self, request: TokenRequest) -> AccessToken:
        """Issue a token to a client.

        Raises:
            BadRequest: Credentials are missing, or the grant type is wrong; ``ScopeNotGranted`` if it lacks all scopes.
            RateLimited: The address has failed too often in the last minute; or the client_id has, and the secret is wrong.
            Unauthorized: The client is unknown or disabled, or the secret is wrong: one message for all. Or only the
                certificate is wrong.
            ServiceUnavailable: The queue is full, or there is no key to sign with.
        """
        client_id, client_secret = check_shape(request)
        limited_as = request.limited_as
        self.refuse_limited(limited_as)
        if not request.is_certified:
            self._refuse_guess(limited_as, client_id, client_secret)
        await self._keyring.look_after_rest()
        # The token is dated before its client is checked: a later change of the client ends the token.
        asked_at = self._context.clock.real_now()
        try:
            client = await self._judge(request)
        except AddressLimited as refusal:
            # A failure always counts for its whole minute, so until then the answer cannot change.
            self._limited_until_s.keep(limited_as, self.now_s() + refusal.left_s)
            raise
        except ClientLimited as refusal:
            limited = _LimitedClient(refusal.secret_hash, self.now_s() + refusal.left_s, self.now_s())
            self._limited_clients.keep(failure_subject("client", client_id), limited)
            self._count_guess(limited_as)
            raise
        return _issue_token(self._context, self._keyring, client, request, asked_at)

    async def _judge(self, request: TokenRequest) -> Client:
        address = request.address
        try:
            if not self._semaphore.acquire_now(address):
                await self._semaphore.acquire(address)
        except BaseException:
            self._forget_if_gone(address)
            raise
        try:
            # Once more: others of its address may have failed meanwhile.
            self.refuse_limited(request.limited_as)
            # Wrong credentials count together where each are limited by themselves; otherwise the address is limited anyway.
            guesses = f"{address} guesses" if request.is_every_request else ""
            is_guessing = bool(guesses) and self._limited_until_s.get(guesses, 0.0) > self.now_s()
            client = (await self._look([request]))[0] if is_guessing else await self._batches.ask(request)
            if client is None:
                # After ten failures of an address in a minute, only good credentials pass this point.
                if is_guessing:
                    self.refuse_limited(guesses)
                async with self._alone.hold(address):
                    self.refuse_limited(request.limited_as)
                    try:
                        client = await judge_alone(self._context, request)
                    except errors.Refusal:
                        if guesses:
                            self._count_guess(guesses)
                        raise
            return client
        finally:
            self._semaphore.release(address)
            self._forget_if_gone(address)

    def _forget_if_gone(self, address: str) -> None:
        if not self._semaphore.is_held_by(address):
            self._judged_alone.discard(address)

    async def _look(self, requests: Sequence[TokenRequest]) -> list[Client | None]:
        """Find the clients of requests with the right credentials; ``None`` for a request to check alone."""
        asked = {request.limited_as for request in requests if not self._waits_for_others(request)}
        addresses = [failure_subject("address", limited_as) for limited_as in asked]
        client_ids = {id_ for request in requests if access_rules.is_client_id(id_ := request.client_id or "")}
        found: Mapping[str, StoredClient] = {}
        if addresses and client_ids:
            found = await access_store.find_logging_in(
                self._context.pool, addresses, client_ids, FAILURES_WINDOW_S, FAILURES_MAX
            )
        clients = [_find_right(self._context.secret_box, found, request) for request in requests]
        # From here on no other request of this address passes beside an uncounted failure. A request whose caller went away
        # blocks nothing.
        self._judged_alone.update(
            request.address
            for request, client in zip(requests, clients, strict=True)
            if client is None and self._semaphore.is_held_by(request.address) and not request.is_every_request
        )
        return [None if self._waits_for_others(request) else client for request, client in zip(requests, clients, strict=True)]

    def _waits_for_others(self, request: TokenRequest) -> bool:
        """Whether one of its address is checked alone; separately limited credentials do not wait for that."""
        return request.address in self._judged_alone and not request.is_every_request

    def now_s(self) -> float:
        return self._context.clock.monotonic_s()

    def refuse_limited(self, limited_as: str) -> None:
        """Raise ``RateLimited``, without the database, for a party known to have failed too often (``limited_as``)."""
        left_s = self._limited_until_s.get(limited_as, 0.0) - self.now_s()
        if left_s > 0:
            raise AddressLimited(left_s)
        self._limited_until_s.pop(limited_as, None)

    def _refuse_guess(self, address: str, client_id: str, client_secret: str) -> None:
        if not self._limited_clients:
            return
        limited = self._limited_clients.get(failure_subject("client", client_id))
        if limited is None:
            return
        now_s = self.now_s()
        if now_s - limited.asked_at_s >= LIMITED_CLIENT_KNOWN_S:
            # This request queries the database; those of the next second do not.
            limited.asked_at_s = now_s
            return
        hashes = hash_secret(self._context.secret_box, client_id, client_secret)
        if now_s < limited.until_s and not _is_among(limited.secret_hash, hashes):
            self._count_guess(address)
            raise ClientLimited(limited.until_s - now_s, limited.secret_hash)

    def _count_guess(self, address: str) -> None:
        # Guesses refused without the database limit their address too, as far as this process knows.
        now_s = self.now_s()
        guesses = self._guesses_at_s.get(address) or deque(maxlen=FAILURES_MAX)
        guesses.append(now_s)
        self._guesses_at_s.keep(address, guesses)
        if len(guesses) == FAILURES_MAX and now_s - guesses[0] < FAILURES_WINDOW_S:
            self._limited_until_s.keep(address, guesses[0] + FAILURES_WINDOW_S)


class _LimitedClient(Struct):
    secret_hash: bytes  # the hash of the right secret at the last query; an unknown client has one without a preimage
    until_s: float
    asked_at_s: float


_RATE: Final = RatePolicy(name="logins", tokens_max=FAILURES_MAX, refill_per_s=FAILURES_MAX / FAILURES_WINDOW_S)


class _Limited(errors.RateLimited):
    def __init__(self, who: str, left_s: float) -> None:
        retry_after_s = max(1, math.ceil(left_s))
        message = f"{who} has failed too many token requests: try again in {retry_after_s} s"
        super().__init__(message, retry_after_s, _RATE)
        self.left_s = left_s


class AddressLimited(_Limited):
    """This address has failed too often; after ``left_s`` its oldest failure no longer counts."""

    def __init__(self, left_s: float) -> None:
        super().__init__("this address", left_s)


class ClientLimited(_Limited):
    """This client_id has failed too often, and this secret is wrong; after ``left_s`` its oldest failure no longer counts."""

    def __init__(self, left_s: float, secret_hash: bytes) -> None:
        super().__init__("this client_id", left_s)
        self.secret_hash = secret_hash


async def judge_alone(context: Core, request: TokenRequest) -> Client:
    """Find the client of these credentials, and count a failure; refuses as ``TokenIssuer.login`` does."""
    async with context.pool.acquire() as connection, connection.transaction():
        verdict = await judge(context, connection, request)
    # Raised only now: inside the transaction it would roll back the counted failure.
    if not isinstance(verdict, Client):
        raise verdict
    return verdict


def check_shape(request: TokenRequest) -> tuple[str, str]:
    if not request.client_id:
        raise errors.BadRequest("client_id: missing")
    if not request.client_secret and not request.is_certified:
        raise errors.BadRequest("client_secret: missing")
    if request.grant_type != "client_credentials":
        raise errors.BadRequest("grant_type: must be client_credentials")
    return request.client_id, request.client_secret or ""


async def judge(context: Core, connection: Connection, request: TokenRequest) -> Client | errors.Refusal:
    """Compare a client's secret, and count a failure; a refusal is returned, because raising it would undo the count."""
    client_id, client_secret = check_shape(request)
    address = failure_subject("address", request.limited_as)
    left_s = await access_store.lock_subject(connection, access_store.ADDRESS_LOCKS, address)
    if left_s is not None:
        return AddressLimited(left_s)
    # PostgreSQL cannot store every text, and a client_id in another form is not ours.
    found = await access_store.find(connection, client_id) if access_rules.is_client_id(client_id) else None
    # An unknown client costs as much time as a known one, and no secret has this hash.
    secret_hash = found.secret_hash if found else bytes(32)
    hashes = hash_secret(context.secret_box, client_id, client_secret)
    is_right = request.is_certified or _is_among(secret_hash, hashes)
    if found and found.may_log_in and is_right:
        # Only here is the secret known, so this is where its hash moves to a new secret key.
        if found.secret_key_id != context.secret_box.key_id and not request.is_certified:
            key_id = context.secret_box.key_id
            await access_store.rehash(connection, client_id, found.secret_hash, hashes[0], key_id)
        if found.client.certificate in (None, request.certificate):
            return found.client
        refusal = "client certificate: this client has one, and the connection did not show it"
    else:
        refusal = "client_id or client_secret: unknown client or wrong secret"
    # The right secret is accepted however often others have guessed: a client cannot be locked out.
    client = failure_subject("client", client_id)
    left_s = await access_store.lock_subject(connection, access_store.CLIENT_LOCKS, client)
    if left_s is not None:
        return ClientLimited(left_s, secret_hash)
    # An unknown client_id is not logged: it may be a secret in the wrong field. A terminal shows the request's own line.
    if not logging.is_shown():
        _log.warning("login refused", client_id=client_id if found else None, address=request.address)
    await access_store.append_failures(connection, [address, client])
    return errors.Unauthorized(refusal)


def _find_right(secret_box: SecretBox, found: Mapping[str, StoredClient], request: TokenRequest) -> Client | None:
    client_id, client_secret = check_shape(request)
    # An unknown client costs as much time as a known one, here too.
    hashes = hash_secret(secret_box, client_id, client_secret)
    stored = found.get(client_id)
    is_right = request.is_certified or _is_among(stored.secret_hash if stored else bytes(32), hashes)
    # The separate check replaces a hash under an old key.
    if stored is None or not is_right or stored.secret_key_id != secret_box.key_id:
        return None
    return stored.client if stored.client.certificate in (None, request.certificate) else None


def _issue_token(context: Core, keyring: Keyring, client: Client, request: TokenRequest, asked_at: datetime) -> AccessToken:
    # Libraries written for one bank request all of its scopes: unknown ones are ignored, and the answer lists the granted ones.
    wanted = request.scopes
    scopes = client.scopes if wanted is None else tuple(scope for scope in client.scopes if scope in wanted)
    if not scopes:
        raise ScopeNotGranted("scope: this client has none of those asked for")
    issued_at = int(access_rules.issue_at(asked_at, client.tokens_from).timestamp())
    bound_to = request.certificate if request.is_certified else client.certificate
    lifetime_s = request.lifetime_s or context.policy.token_lifetime_s
    claims = jose.Claims(
        iss=context.policy.auth_url,
        aud=AUDIENCE,
        sub=client.client_id,
        holder_id=str(client.holder_id),
        scope=" ".join(scopes),
        iat=issued_at,
        exp=issued_at + lifetime_s,
        jti=str(context.entropy.uuid4()),
        cnf=UNSET if bound_to is None else jose.Confirmation(thumbprint=bound_to),
    )
    token = jose.sign_token(keyring.token_key(), claims)
    return AccessToken(access_token=token, expires_in_s=lifetime_s, scopes=scopes)


def _is_among(secret_hash: bytes, hashes: Sequence[bytes]) -> bool:
    return any(hmac.compare_digest(secret_hash, one) for one in hashes)


def failure_subject(kind: str, text: str) -> bytes:
    # A hash, never the text itself: that may be a secret in the wrong field.
    return hashlib.blake2b(f"{kind}:{text}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
