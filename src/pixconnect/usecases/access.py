"""Clients and their token requests.

Who guesses is slowed down: ten failures a minute for an address and ten for a client_id. Judging and counting one request is
one transaction that nobody else of that address can overlap, so a hundred guesses at once are still ten.
"""

import asyncio
import hashlib
import hmac
import math
import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from pixconnect.domain import access as access_rules
from pixconnect.domain import errors
from pixconnect.domain.access import AUDIENCE, FAILURES_WINDOW_S, AccessToken, Client, IssuedClient
from pixconnect.foundation import jose
from pixconnect.store import access as access_store
from pixconnect.store import holder as holder_store

if TYPE_CHECKING:
    from pixconnect.foundation.pool import Connection
    from pixconnect.usecases.operator import OperatorContext
    from pixconnect.usecases.signing_key import Keyring

JUDGED_AT_ONCE_MAX = 2
"""Token requests that use the database at once, in one process."""
WAITING_MAX = 256
"""Token requests under way and waiting; more are refused."""
_LIMITED_REMEMBERED_MAX = 4096
_CLIENT_ID_LENGTH = 24
_SECRET_LENGTH = 43
"""Of 62 letters each: 256 bits."""
_NAME_LENGTH_MAX = 255
_CLIENT_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FORGOTTEN_AT_ONCE_MAX = 100
"""Old failures deleted with each new one: more than one, so that the table shrinks."""


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

    A flood of them must not take the database's connections from everybody else: a few are judged at once, a few more wait,
    and an address that is known to be limited is not even asked about, since a failure always counts its whole minute.

    Args:
        context: Of this process.
        keyring: Signs the tokens.
    """

    def __init__(self, context: "OperatorContext", keyring: "Keyring") -> None:
        self._context = context
        self._keyring = keyring
        self._gate = asyncio.Semaphore(JUDGED_AT_ONCE_MAX)
        self._waiting_count = 0
        self._limited_until_s: OrderedDict[str, float] = OrderedDict()

    async def login(self, request: TokenRequest) -> AccessToken:
        """Give a client a token; refusals as of the function ``login``, and ServiceUnavailable when the queue is full."""
        _check_shape(request)
        self._refuse_limited(request.address)
        if self._waiting_count >= WAITING_MAX:
            raise errors.ServiceUnavailable("too many token requests at once")
        self._waiting_count += 1
        try:
            async with self._gate:
                self._refuse_limited(request.address)
                return await login(self._context, self._keyring, request)
        except AddressLimited as refusal:
            self._limited_until_s[request.address] = self._context.clock.monotonic_s() + refusal.left_s
            if len(self._limited_until_s) > _LIMITED_REMEMBERED_MAX:
                self._limited_until_s.popitem(last=False)
            raise
        finally:
            self._waiting_count -= 1

    def _refuse_limited(self, address: str) -> None:
        left_s = self._limited_until_s.get(address, 0.0) - self._context.clock.monotonic_s()
        if left_s > 0:
            raise AddressLimited(left_s)
        self._limited_until_s.pop(address, None)


class AddressLimited(errors.RateLimited):
    """This address has failed too often.

    Args:
        left_s: Seconds until the oldest failure no longer counts.
    """

    def __init__(self, left_s: float) -> None:
        retry_after_s = max(1, math.ceil(left_s))
        super().__init__(_limited_message("this address", retry_after_s), retry_after_s)
        self.left_s = left_s


async def login(context: "OperatorContext", keyring: "Keyring", request: TokenRequest) -> AccessToken:
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
    context: "OperatorContext", connection: "Connection", from_address: str, client_id: str, client_secret: str
) -> Client | errors.Refusal:
    failures_max = context.policy.token_failures_max
    address = _subject("address", from_address)
    await access_store.lock_subject(connection, access_store.ADDRESS_LOCKS, address)
    left_s = await access_store.limited_for_s(connection, address, FAILURES_WINDOW_S, failures_max)
    if left_s is not None:
        return AddressLimited(left_s)
    found = await access_store.find(connection, client_id) if _CLIENT_ID.fullmatch(client_id) else None
    is_right = hmac.compare_digest(
        found.secret_hash if found else bytes(32), _hash_secret(context, client_id, client_secret)
    )
    if found and found.may_log_in and is_right:
        return found.client
    client = _subject("client", client_id)
    await access_store.lock_subject(connection, access_store.CLIENT_LOCKS, client)
    left_s = await access_store.limited_for_s(connection, client, FAILURES_WINDOW_S, failures_max)
    if left_s is not None:
        retry_after_s = max(1, math.ceil(left_s))
        return errors.RateLimited(_limited_message("this client_id", retry_after_s), retry_after_s)
    await access_store.append_failures(connection, [address, client])
    await access_store.delete_old_failures(connection, FAILURES_WINDOW_S, _FORGOTTEN_AT_ONCE_MAX)
    return errors.Unauthorized("client_id or client_secret: unknown client or wrong secret")


def _issue_token(context: "OperatorContext", keyring: "Keyring", client: Client) -> AccessToken:
    issued_at = int(context.clock.real_now().timestamp())
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


async def create_client(context: "OperatorContext", holder_id: int, name: str, scopes: Sequence[str]) -> IssuedClient:
    """Make a client of a holder.

    Args:
        context: Of this process.
        holder_id: Whose account it works on.
        name: For the operator, 1 to 255 characters.
        scopes: What it may do.

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
        scopes=access_rules.parse_scopes(scopes),
        created_at=context.clock.real_now(),
    )
    client_secret = context.entropy.token(_SECRET_LENGTH)
    secret_hash = _hash_secret(context, client.client_id, client_secret)
    async with context.pool.acquire() as connection, connection.transaction():
        if await holder_store.find(connection, holder_id) is None:
            raise errors.NotFound(f"holder_id: there is no holder {holder_id}")
        await access_store.insert(connection, client, secret_hash)
    return IssuedClient(client=client, client_secret=client_secret)


async def rotate_client(context: "OperatorContext", client_id: str) -> IssuedClient:
    """Replace a client's secret; the old one is refused from now on, tokens already issued run out by themselves.

    Raises:
        NotFound: There is no such client.
    """
    client_secret = context.entropy.token(_SECRET_LENGTH)
    secret_hash = _hash_secret(context, client_id, client_secret)
    async with context.pool.acquire() as connection:
        client = await access_store.rotate(connection, client_id, secret_hash, context.clock.real_now())
    return IssuedClient(client=_found(client, client_id), client_secret=client_secret)


async def disable_client(context: "OperatorContext", client_id: str) -> Client:
    """Shut a client out, its tokens included, on every process within a second.

    Raises:
        NotFound: There is no such client.
    """
    return await _set_disabled(context, client_id, is_disabled=True)


async def enable_client(context: "OperatorContext", client_id: str) -> Client:
    """Let a client in again.

    Raises:
        NotFound: There is no such client.
    """
    return await _set_disabled(context, client_id, is_disabled=False)


async def _set_disabled(context: "OperatorContext", client_id: str, *, is_disabled: bool) -> Client:
    disabled_at = context.clock.real_now() if is_disabled else None
    async with context.pool.acquire() as connection:
        return _found(await access_store.set_disabled(connection, client_id, disabled_at), client_id)


async def list_clients(context: "OperatorContext", holder_id: int) -> list[Client]:
    """A holder's clients, oldest first."""
    async with context.pool.acquire() as connection:
        return await access_store.list_of_holder(connection, holder_id)


def _found(client: Client | None, client_id: str) -> Client:
    if client is None:
        raise errors.NotFound(f"client_id: there is no client {client_id}")
    return client


def _hash_secret(context: "OperatorContext", client_id: str, client_secret: str) -> bytes:
    text = f"{client_id}:{client_secret}"
    return context.secret_box.fingerprint(text.encode("utf-8", "surrogatepass"), "client_secret")


def _subject(kind: str, text: str) -> bytes:
    """What failures are counted under: never the text itself, which may be a secret sent in the wrong field."""
    return hashlib.blake2b(f"{kind}:{text}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _limited_message(who: str, retry_after_s: int) -> str:
    return f"{who} has failed too many token requests: try again in {retry_after_s} s"
