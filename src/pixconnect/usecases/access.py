"""Clients and their token requests.

Who guesses is slowed down: ten failures a minute for an address and ten for a client_id. Judging and counting one request is
one transaction that nobody else of that address can overlap, so a hundred guesses at once are still ten.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import TypeVar

import structlog
from msgspec import Struct

from pixconnect.domain import access as access_rules
from pixconnect.domain import errors
from pixconnect.domain.access import AUDIENCE, FAILURES_WINDOW_S, SCOPES, AccessToken, Client, IssuedClient
from pixconnect.domain.rate import RatePolicy
from pixconnect.foundation import jose
from pixconnect.foundation.pool import Connection
from pixconnect.foundation.shares import FairSemaphore
from pixconnect.store import access as access_store
from pixconnect.store import holder as holder_store
from pixconnect.usecases import audit
from pixconnect.usecases.lone_write import write_alone
from pixconnect.usecases.operator import OperatorContext, TokenContext
from pixconnect.usecases.signing_key import Keyring

_log = structlog.get_logger(__name__)

JUDGED_AT_ONCE_MAX = 2
"""Token requests that use the database at once, in one process."""
WAITING_MAX = 256
"""Token requests under way and waiting; more are refused."""
LIMITED_CLIENT_KNOWN_S = 1.0
"""How long what a limited client's right secret is counts without asking again: it may have been replaced."""
_LIMITED_REMEMBERED_MAX = 4096
_CLIENT_ID_LENGTH = 24
_SECRET_LENGTH = 43
"""Of 62 letters each: 256 bits."""
_NAME_LENGTH_MAX = 255
_CLIENT_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FORGOTTEN_AT_ONCE_MAX = 100
"""Old failures deleted with each new one: more than one, so that the table shrinks."""

Key = TypeVar("Key")
Value = TypeVar("Value")


class TokenRequest(Struct, frozen=True, kw_only=True):
    """A token request as it came.

    Attributes:
        client_id: Form field.
        client_secret: Form field.
        grant_type: Form field.
        address: Whom a failure counts for, by ``client_address``.
    """

    client_id: str | None
    client_secret: str | None
    grant_type: str | None
    address: str


class TokenDesk:
    """Where the token requests of one process queue up.

    A flood of them must not take the database's connections from everybody else: a few are judged at once, of each address in
    turn, and a few more wait. An address that is known to be limited is not even asked about, since a failure always counts its
    whole minute; nor is a wrong secret of a client that is.

    Args:
        context: Of this process.
        keyring: Signs the tokens.
    """

    def __init__(self, context: TokenContext, keyring: Keyring) -> None:
        self._context = context
        self._keyring = keyring
        waiting_max = max(1, WAITING_MAX - JUDGED_AT_ONCE_MAX)
        self._semaphore = FairSemaphore(JUDGED_AT_ONCE_MAX, waiting_max=waiting_max, what="token requests")
        self._limited_until_s: OrderedDict[str, float] = OrderedDict()
        self._limited_clients: OrderedDict[bytes, _LimitedClient] = OrderedDict()
        self._guesses_at_s: OrderedDict[str, deque[float]] = OrderedDict()
        """When an address was last told that the client it names is limited."""

    async def login(self, request: TokenRequest) -> AccessToken:
        """Give a client a token; refusals as of the function ``login``, and ServiceUnavailable when the queue is full."""
        client_id, client_secret = _check_shape(request)
        self._refuse_limited(request.address)
        self._refuse_guess(request.address, client_id, client_secret)
        try:
            async with self._semaphore.hold(request.address):
                self._refuse_limited(request.address)
                return await login(self._context, self._keyring, request)
        except AddressLimited as refusal:
            _remember(self._limited_until_s, request.address, self._now_s() + refusal.left_s)
            raise
        except ClientLimited as refusal:
            limited = _LimitedClient(refusal.secret_hash, self._now_s() + refusal.left_s, self._now_s())
            _remember(self._limited_clients, _subject("client", client_id), limited)
            self._count_guess(request.address)
            raise

    def _now_s(self) -> float:
        return self._context.clock.monotonic_s()

    def _refuse_limited(self, address: str) -> None:
        left_s = self._limited_until_s.get(address, 0.0) - self._now_s()
        if left_s > 0:
            raise AddressLimited(left_s, self._context.policy.token_failures_max)
        self._limited_until_s.pop(address, None)

    def _refuse_guess(self, address: str, client_id: str, client_secret: str) -> None:
        """Refuse a wrong secret of a limited client without the database, which is asked about it once a second."""
        if not self._limited_clients:
            return
        limited = self._limited_clients.get(_subject("client", client_id))
        if limited is None:
            return
        now_s = self._now_s()
        if now_s - limited.asked_at_s >= LIMITED_CLIENT_KNOWN_S:
            limited.asked_at_s = now_s  # this one asks; those that come meanwhile do not
            return
        hashes = _hash_secret(self._context, client_id, client_secret)
        if now_s < limited.until_s and not _is_among(limited.secret_hash, hashes):
            self._count_guess(address)
            failures_max = self._context.policy.token_failures_max
            raise ClientLimited(limited.until_s - now_s, failures_max, limited.secret_hash)

    def _count_guess(self, address: str) -> None:
        """An address whose guesses are not even judged is limited by them as by those that are, in this process."""
        now_s = self._now_s()
        guesses_max = self._context.policy.token_failures_max
        guesses = self._guesses_at_s.get(address) or deque(maxlen=guesses_max)
        guesses.append(now_s)
        _remember(self._guesses_at_s, address, guesses)
        if len(guesses) == guesses_max and now_s - guesses[0] < FAILURES_WINDOW_S:
            _remember(self._limited_until_s, address, guesses[0] + FAILURES_WINDOW_S)


class _LimitedClient:
    """A client_id of which a wrong secret is refused without the database."""

    __slots__ = ("asked_at_s", "secret_hash", "until_s")

    def __init__(self, secret_hash: bytes, until_s: float, asked_at_s: float) -> None:
        self.secret_hash = secret_hash
        """Of the right secret, when it was asked about; of a client that does not exist, what no secret has."""
        self.until_s = until_s
        self.asked_at_s = asked_at_s


def _remember(remembered: OrderedDict[Key, Value], key: Key, value: Value) -> None:
    remembered[key] = value
    remembered.move_to_end(key)
    if len(remembered) > _LIMITED_REMEMBERED_MAX:
        remembered.popitem(last=False)


class AddressLimited(errors.RateLimited):
    """This address has failed too often.

    Args:
        left_s: Seconds until the oldest failure no longer counts.
        failures_max: A minute.
    """

    def __init__(self, left_s: float, failures_max: int) -> None:
        retry_after_s = max(1, math.ceil(left_s))
        super().__init__(_limited_message("this address", retry_after_s), retry_after_s, _rate(failures_max))
        self.left_s = left_s


class ClientLimited(errors.RateLimited):
    """This client_id has failed too often, and this secret of it is wrong.

    Args:
        left_s: Seconds until the oldest failure no longer counts.
        failures_max: A minute.
        secret_hash: Of the right secret; never shown.
    """

    def __init__(self, left_s: float, failures_max: int, secret_hash: bytes) -> None:
        retry_after_s = max(1, math.ceil(left_s))
        super().__init__(_limited_message("this client_id", retry_after_s), retry_after_s, _rate(failures_max))
        self.left_s = left_s
        self.secret_hash = secret_hash


async def login(context: TokenContext, keyring: Keyring, request: TokenRequest) -> AccessToken:
    """Give a client a token.

    Raises:
        BadRequest: Credentials are missing, or the grant type is another.
        RateLimited: The address, or with a wrong secret the client_id, has failed too often in the last minute.
        Unauthorized: Unknown client, wrong secret, or disabled: one message for all.
        ServiceUnavailable: There is no key to sign with.
    """
    client_id, client_secret = _check_shape(request)
    async with context.pool.acquire() as connection, connection.transaction():
        verdict = await _judge(context, connection, request.address, client_id, client_secret)
    # Raised only now: a refusal inside the transaction would take its failure back.
    if not isinstance(verdict, Client):
        raise verdict
    return _issue_token(context, keyring, verdict)


def _check_shape(request: TokenRequest) -> tuple[str, str]:
    if not request.client_id:
        raise errors.BadRequest("client_id: missing")
    if not request.client_secret:
        raise errors.BadRequest("client_secret: missing")
    if request.grant_type != "client_credentials":
        raise errors.BadRequest("grant_type: must be client_credentials")
    return request.client_id, request.client_secret


async def _judge(
    context: TokenContext, connection: Connection, from_address: str, client_id: str, client_secret: str
) -> Client | errors.Refusal:
    failures_max = context.policy.token_failures_max
    address = _subject("address", from_address)
    await access_store.lock_subject(connection, access_store.ADDRESS_LOCKS, address)
    left_s = await access_store.limited_for_s(connection, address, FAILURES_WINDOW_S, failures_max)
    if left_s is not None:
        return AddressLimited(left_s, failures_max)
    found = await access_store.find(connection, client_id) if _CLIENT_ID.fullmatch(client_id) else None
    secret_hash = found.secret_hash if found else bytes(32)
    hashes = _hash_secret(context, client_id, client_secret)
    is_right = _is_among(secret_hash, hashes)
    if found and found.may_log_in and is_right:
        if found.secret_key_id != context.secret_box.key_id:
            await access_store.rehash(connection, found, hashes[0], context.secret_box.key_id)
        return found.client
    client = _subject("client", client_id)
    await access_store.lock_subject(connection, access_store.CLIENT_LOCKS, client)
    left_s = await access_store.limited_for_s(connection, client, FAILURES_WINDOW_S, failures_max)
    if left_s is not None:
        return ClientLimited(left_s, failures_max, secret_hash)
    # Of a client that exists: what else was sent as a name may be a secret in the wrong field.
    _log.warning("login refused", client_id=client_id if found else None, address=from_address)
    await access_store.append_failures(connection, [address, client])
    await access_store.delete_old_failures(connection, FAILURES_WINDOW_S, _FORGOTTEN_AT_ONCE_MAX)
    return errors.Unauthorized("client_id or client_secret: unknown client or wrong secret")


def _issue_token(context: TokenContext, keyring: Keyring, client: Client) -> AccessToken:
    issued_at = int(access_rules.issue_at(context.clock.real_now(), client.tokens_from).timestamp())
    lifetime_s = context.policy.token_lifetime_s
    claims = jose.Claims(
        iss=context.policy.auth_url,
        aud=AUDIENCE,
        sub=client.client_id,
        holder_id=str(client.holder_id),
        scope=" ".join(client.scopes),
        iat=issued_at,
        exp=issued_at + lifetime_s,
        jti=str(context.entropy.uuid4()),
    )
    return AccessToken(access_token=jose.sign_token(keyring.token_key(), claims), expires_in_s=lifetime_s)


async def create_client(context: OperatorContext, holder_id: int, name: str, scopes: Sequence[str]) -> IssuedClient:
    """Make a client of a holder.

    Args:
        context: Of this process.
        holder_id: Whose account it works on.
        name: For the operator, 1 to 255 characters.
        scopes: What it may do; none is everything in the sandbox, and refused in live mode.

    Returns:
        The client and its secret, which nobody can read again.

    Raises:
        BadRequest: The name's length, or a scope that does not exist.
        NotFound: There is no such holder.
    """
    if not 1 <= len(name) <= _NAME_LENGTH_MAX or not name.isprintable():
        raise errors.BadRequest(f"name: must have 1 to {_NAME_LENGTH_MAX} printable characters")
    client = Client(
        client_id=context.entropy.token(_CLIENT_ID_LENGTH),
        holder_id=holder_id,
        name=name,
        scopes=access_rules.parse_scopes(scopes or (SCOPES if context.policy.is_sandbox else ())),
        created_at=context.clock.real_now(),
    )
    client_secret = context.entropy.token(_SECRET_LENGTH)
    secret_hash, *_ = _hash_secret(context, client.client_id, client_secret)
    async with write_alone(context.pool) as connection:
        if await holder_store.find(connection, holder_id) is None:
            raise errors.NotFound(f"holder_id: there is no holder {holder_id}")
        await access_store.insert(connection, client, secret_hash, context.secret_box.key_id)
        await audit.record(context, connection, "client create", _audited(client.client_id), after=client)
    return IssuedClient(client=client, client_secret=client_secret)


async def rotate_client(context: OperatorContext, client_id: str) -> IssuedClient:
    """Replace a client's secret; the old one is refused from now on, and within a second every token issued until now.

    Raises:
        NotFound: There is no such client.
    """
    client_secret = context.entropy.token(_SECRET_LENGTH)
    secret_hash, *_ = _hash_secret(context, client_id, client_secret)
    now = context.clock.real_now()
    async with write_alone(context.pool) as connection:
        before = await _lock(connection, client_id)
        client = await access_store.rotate(
            connection,
            client_id,
            secret_hash,
            context.secret_box.key_id,
            rotated_at=now,
            tokens_from=access_rules.end_tokens_at(now),
        )
        client = _found(client, client_id)
        await audit.record(context, connection, "client rotate", _audited(client_id), before=before, after=client)
    return IssuedClient(client=client, client_secret=client_secret)


async def disable_client(context: OperatorContext, client_id: str) -> Client:
    """Shut a client out, its tokens included, on every process within a second; those tokens never come back.

    Raises:
        NotFound: There is no such client.
    """
    now = context.clock.real_now()
    tokens_from = access_rules.end_tokens_at(now)
    async with write_alone(context.pool) as connection:
        before = await _lock(connection, client_id)
        disabled = await access_store.disable(connection, client_id, disabled_at=now, tokens_from=tokens_from)
        client = _found(disabled, client_id)
        await audit.record(context, connection, "client disable", _audited(client_id), before=before, after=client)
    return client


async def enable_client(context: OperatorContext, client_id: str) -> Client:
    """Let a client in again, with new tokens only.

    Raises:
        NotFound: There is no such client.
    """
    async with write_alone(context.pool) as connection:
        before = await _lock(connection, client_id)
        client = _found(await access_store.enable(connection, client_id), client_id)
        await audit.record(context, connection, "client enable", _audited(client_id), before=before, after=client)
    return client


async def revoke_tokens(context: OperatorContext, client_id: str) -> Client:
    """Refuse every token that a client was issued until now, on every process within a second; it may log in again.

    Raises:
        NotFound: There is no such client.
    """
    tokens_from = access_rules.end_tokens_at(context.clock.real_now())
    async with write_alone(context.pool) as connection:
        before = await _lock(connection, client_id)
        client = _found(await access_store.end_tokens(connection, client_id, tokens_from), client_id)
        await audit.record(
            context, connection, "client revoke-tokens", _audited(client_id), before=before, after=client
        )
    return client


async def list_clients(context: OperatorContext, holder_id: int) -> list[Client]:
    """A holder's clients, oldest first."""
    async with context.pool.acquire() as connection:
        return await access_store.list_of_holder(connection, holder_id)


async def _lock(connection: Connection, client_id: str) -> Client:
    return _found(await access_store.lock(connection, client_id), client_id)


def _audited(client_id: str) -> str:
    return f"client {client_id}"


def _found(client: Client | None, client_id: str) -> Client:
    if client is None:
        raise errors.NotFound(f"client_id: there is no client {client_id}")
    return client


def _hash_secret(context: TokenContext, client_id: str, client_secret: str) -> Sequence[bytes]:
    text = f"{client_id}:{client_secret}"
    return context.secret_box.fingerprints(text.encode("utf-8", "surrogatepass"), "client_secret")


def _is_among(secret_hash: bytes, hashes: Sequence[bytes]) -> bool:
    return any(hmac.compare_digest(secret_hash, one) for one in hashes)


def _subject(kind: str, text: str) -> bytes:
    """What failures are counted under: never the text itself, which may be a secret sent in the wrong field."""
    return hashlib.blake2b(f"{kind}:{text}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _rate(failures_max: int) -> RatePolicy:
    return RatePolicy(name="logins", tokens_max=failures_max, refill_per_s=failures_max / FAILURES_WINDOW_S)


def _limited_message(who: str, retry_after_s: int) -> str:
    return f"{who} has failed too many token requests: try again in {retry_after_s} s"
