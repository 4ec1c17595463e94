"""The keys that sign tokens, webhooks and QR code payloads: made, published, used, replaced and forgotten.

Each process holds the keys in a ``Keyring``, which reads them again when ``access_revision`` has moved: half a second after a
key has come or was revoked every process knows. A new key is published a minute before it signs, so that others know it by
then; one that cannot wait (the very first, the first for a new host, the one that follows a revoked key) signs at once, and
whoever meets its unknown name reads again.

Revoking is one transaction: the key is worth nothing, and its successor is there. A process that has not read it yet may sign
with the revoked key for half a second more; others refuse that already, and the caller logs in again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import structlog
from joserfc.jwk import ECKey
from msgspec import structs

from pixconnect.domain import errors
from pixconnect.domain import signing as signing_rules
from pixconnect.domain.clock import Clock
from pixconnect.domain.secret_box import SealBroken, SecretBox
from pixconnect.domain.signing import SigningKey
from pixconnect.foundation import certificates, jose
from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.foundation.shares import for_everybody
from pixconnect.store import access as access_store
from pixconnect.store import signing_key as signing_key_store
from pixconnect.store.signing_key import Authority
from pixconnect.usecases import audit
from pixconnect.usecases.context import Policy
from pixconnect.usecases.lone_write import write_alone
from pixconnect.usecases.operator import OperatorContext, SigningContext

LOOK_INTERVAL_S = 0.5
"""How often a process looks whether a key has come or was revoked."""
RELOAD_INTERVAL_S = 20.0
"""How often a process reads the keys again in any case; three times within ``PUBLISHED_AHEAD``."""
RELOAD_UNKNOWN_INTERVAL_S = 0.2
"""How often at most an unknown ``kid`` or a look at the published keys makes us read them again."""
READ_TIMEOUT_S = 2.0
STALE_AFTER_S = 120.0
"""The health check complains when the keys were last read this long ago."""
_PRIVATE_KEPT = timedelta(minutes=10)
"""How long a private part outlives its last signature: a slow process may still ask for it."""
_AUTHORITY_NAME = "Pix Connect CA"
ABOUT_AUTHORITY = "certificate_authority"
"""What its private part is sealed about."""

_log = structlog.get_logger(__name__)


async def rotate(context: OperatorContext) -> SigningKey:
    """Make a new key now. It is published at once and signs a minute later, unless it is the first for its host.

    An operator's environment need not know the service's host: where it has no key, the host of the newest key is meant.

    Raises:
        SealBroken: The certificate authority was sealed with another secret key.
    """
    async with write_alone(context.pool) as connection:
        await signing_key_store.lock(connection)
        key = await _make_next_key(context, connection)
        await audit.record(context, connection, "signing-key rotate", _audited(key.kid), after=_told(key))
        return key


async def revoke(context: OperatorContext, kid: str) -> SigningKey:
    """Let a key be worth nothing, on every process within a second; doing it twice changes nothing.

    Tokens that it signed are refused and it is not published any more. Where it was the one that signs, a new key does at once.

    Returns:
        The key that signs for its host now.

    Raises:
        NotFound: There is no such key.
        SealBroken: The certificate authority was sealed with another secret key.
    """
    async with write_alone(context.pool) as connection:
        await signing_key_store.lock(connection)
        keys = await signing_key_store.list_all(connection)
        key = next((key for key in keys if key.kid == kid), None)
        if key is None:
            raise errors.NotFound(f"kid: there is no signing key {kid}")
        now = context.clock.real_now()
        if key.revoked_at is None:
            if signing_rules.is_replacement_needed(key, keys, now):
                # After the revoked one even if two clocks differ: its place in the order is what makes it the successor.
                signs_from = max(now, key.signs_from + timedelta(microseconds=1))
                keys.append(await _make_key(context, connection, key.host, now, signs_from))
            await signing_key_store.revoke(connection, kid, now)
            keys = [structs.replace(one, revoked_at=now) if one.kid == kid else one for one in keys]
            _log.info("signing key revoked", kid=kid)
        current = signing_rules.current_key(keys, key.host, now)
        if current is None:
            raise AssertionError("a revoked key has no successor")
        (revoked,) = (one for one in keys if one.kid == kid)
        await audit.record(
            context, connection, "signing-key revoke", _audited(kid), before=_told(key), after=_told(revoked)
        )
    return current


async def renew_authority(context: OperatorContext) -> SigningKey:
    """Make a new certificate authority, and a new key that it certifies: published at once, it signs a minute later.

    Returns:
        The new key.
    """
    async with write_alone(context.pool) as connection:
        await signing_key_store.lock(connection)
        await _make_authority(context, connection, context.clock.real_now())
        key = await _make_next_key(context, connection)
        await audit.record(context, connection, "signing-key renew-authority", _audited(key.kid), after=_told(key))
        return key


async def list_keys(context: SigningContext) -> list[SigningKey]:
    """Every key that is not forgotten yet, revoked ones too, the latest first."""
    async with context.pool.acquire() as connection:
        return await signing_key_store.list_all(connection)


async def rotate_if_due(context: SigningContext) -> SigningKey | None:
    """Make a new key if there is none, or the newest is old, or its certificate is; forget what nobody needs.

    Every process calls this before it serves and when its keyring sees that it is time; housekeeping once an hour.

    Returns:
        The new key, or ``None``.

    Raises:
        SealBroken: The certificate authority was sealed with another secret key.
    """
    async with context.pool.acquire() as connection, connection.transaction():
        await signing_key_store.lock(connection)
        keys = await signing_key_store.list_all(connection)
        host = _host(context)
        newest = signing_rules.newest_key(keys, host)
        made, now = None, context.clock.real_now()
        if signing_rules.is_rotation_due(newest, now, _rotated_every(context)):
            made = await _make_key(context, connection, host, now, _signs_from(newest, now))
        await _forget(context, connection, keys)
        return made


async def _make_next_key(context: SigningContext, connection: Connection) -> SigningKey:
    """Make a new key for our host or, where that has none, for the host of the newest key."""
    keys = await signing_key_store.list_all(connection)
    host, now = _host(context), context.clock.real_now()
    if keys and signing_rules.newest_key(keys, host) is None:
        host = keys[0].host
    return await _make_key(context, connection, host, now, _signs_from(signing_rules.newest_key(keys, host), now))


def _signs_from(newest: SigningKey | None, now: datetime) -> datetime:
    """When a new key begins to sign: at once, if there is none that it follows."""
    return now if newest is None else now + signing_rules.PUBLISHED_AHEAD


async def _make_key(
    context: SigningContext, connection: Connection, host: str, now: datetime, signs_from: datetime
) -> SigningKey:
    key = jose.make_key()
    kid = jose.thumbprint(key)
    authority_key, authority = await _open_authority(context, connection, now)
    leaf = certificates.issue_leaf(key, host, authority_key, authority.certificate, now)
    made = SigningKey(
        kid=kid,
        public_jwk=jose.write_public_jwk(key),
        private_sealed=context.secret_box.seal(jose.write_private_key(key), about_key(kid)),
        certificates=(leaf.der, authority.certificate),
        host=host,
        expires_at=min(leaf.expires_at, authority.expires_at),
        created_at=now,
        signs_from=signs_from,
    )
    await signing_key_store.insert(connection, made)
    _log.info("signing key made", kid=kid, signs_from=made.signs_from.isoformat())
    return made


async def _open_authority(context: SigningContext, connection: Connection, now: datetime) -> tuple[ECKey, Authority]:
    """The authority that signs certificates now; a new one where the old would end before its leaf."""
    found, *_ = await signing_key_store.list_authorities(connection) or [None]
    if found is not None and found.expires_at >= now + certificates.LEAF_LIFETIME:
        return jose.read_private_key(context.secret_box.open(found.private_sealed, ABOUT_AUTHORITY)), found
    return await _make_authority(context, connection, now)


async def _make_authority(context: SigningContext, connection: Connection, now: datetime) -> tuple[ECKey, Authority]:
    key = jose.make_key()
    certificate = certificates.make_authority(key, _AUTHORITY_NAME, now)
    authority = Authority(
        private_sealed=context.secret_box.seal(jose.write_private_key(key), ABOUT_AUTHORITY),
        certificate=certificate.der,
        expires_at=certificate.expires_at,
        created_at=now,
    )
    await signing_key_store.insert_authority(connection, authority)
    return key, authority


async def _forget(context: SigningContext, connection: Connection, keys: list[SigningKey]) -> None:
    now = context.clock.real_now()
    published_for = _published_for(context)
    kept = {key.kid for key in signing_rules.published_keys(keys, now, published_for)}
    kept |= {key.kid for key in keys if key.revoked_at is not None and now <= key.revoked_at + published_for}
    done = [
        key.kid
        for key in keys
        if (last_signature_at := signing_rules.superseded_at(key, keys)) and last_signature_at + _PRIVATE_KEPT < now
    ]
    await signing_key_store.delete(connection, [key.kid for key in keys if key.kid not in kept])
    await signing_key_store.forget_private(connection, done)


class Keyring:
    """The keys as this process sees them: signs with the current one, and knows those that others still need.

    It is the ``Signer`` of everything in this process.

    Args:
        pool: Connections as ``pixconnect_service``.
        clock: Time.
        policy: The operator's rules.
        secret_box: Opens private keys.
    """

    def __init__(self, *, pool: Pool, clock: Clock, policy: Policy, secret_box: SecretBox) -> None:
        self.pool = pool
        self.clock = clock
        self.policy = policy
        self.secret_box = secret_box
        self._host = _host(self)
        self._keys: Sequence[SigningKey] = ()
        self._revision: int | None = None
        self._signing: tuple[SigningKey, datetime] | None = None
        self._private: dict[str, jose.PrivateKey] = {}
        self._public: dict[str, ECKey] = {}
        self._tokens_until: dict[str, datetime] = {}
        self._read_at_s = float("-inf")
        self._reading = asyncio.Lock()

    async def start(self) -> None:
        """Make the first key if there is none, and read what there is."""
        await rotate_if_due(self)
        await self.reload()

    async def keep_fresh(self) -> None:
        """Read the keys again whenever one has come or gone, and make the next when it is due; a task to be cancelled."""
        told_at_s = float("-inf")
        while True:
            await asyncio.sleep(min(LOOK_INTERVAL_S, RELOAD_INTERVAL_S))
            try:
                await self._follow()
            except (errors.ServiceUnavailable, SealBroken, *DATABASE_FAILED) as error:
                if self.clock.monotonic_s() - told_at_s >= RELOAD_INTERVAL_S:
                    told_at_s = self.clock.monotonic_s()
                    _log.warning("signing keys not read", reason=type(error).__name__)

    async def _follow(self) -> None:
        is_old = self.clock.monotonic_s() - self._read_at_s >= RELOAD_INTERVAL_S
        async with asyncio.timeout(READ_TIMEOUT_S):
            has_moved = await access_store.read_revision(self.pool) != self._revision
        if has_moved or is_old:
            await self.reload()
        if self._is_rotation_due():
            await rotate_if_due(self)

    async def reload(self, pool: Pool | None = None) -> None:
        """Read the keys.

        Args:
            pool: Over this one, if it is not the process's.

        Raises:
            ServiceUnavailable: The database gave no answer.
            SealBroken: A key that must sign was sealed with another secret key.
        """
        # One after the other: an answer that was overtaken by another must not bring a revoked key back.
        async with self._reading:
            await self._reload(pool or self.pool)

    async def look_for_new(self, pool: Pool | None = None) -> None:
        """Read the keys as they are now or later; whoever comes meanwhile waits for the same answer, five times a second.

        Args:
            pool: Over this one, if it is not the process's.

        Raises:
            ServiceUnavailable: The database gave no answer.
        """
        asked_at_s = self.clock.monotonic_s()
        async with self._reading:
            if self._read_at_s >= asked_at_s:
                return
            await asyncio.sleep(max(0.0, self._read_at_s + RELOAD_UNKNOWN_INTERVAL_S - self.clock.monotonic_s()))
            await self._reload(pool or self.pool)

    async def reload_if_older(self, age_s: float = RELOAD_UNKNOWN_INTERVAL_S) -> None:
        """Read the keys unless that was done just now; whoever comes meanwhile waits for the same answer."""
        async with self._reading:
            if self.clock.monotonic_s() - self._read_at_s >= age_s:
                await self._reload(self.pool)

    async def _reload(self, pool: Pool) -> None:
        read_at_s = self.clock.monotonic_s()
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                with for_everybody():
                    read = await signing_key_store.read_all(pool)
        except DATABASE_FAILED:
            raise errors.ServiceUnavailable("signing keys: the database gives no answer") from None
        keys = [key for key in read.keys if key.revoked_at is None]
        self._public = {key.kid: self._public.get(key.kid) or jose.read_public_jwk(key.public_jwk) for key in keys}
        self._keys = read.keys
        self._signing = None
        self._revision = read.revision
        self._read_at_s = read_at_s
        outlived_by = timedelta(seconds=self.policy.token_lifetime_s) + signing_rules.PUBLISHED_AHEAD
        self._tokens_until = {
            key.kid: last_signature_at + outlived_by
            for key in keys
            if (last_signature_at := signing_rules.superseded_at(key, read.keys))
        }
        # Last: what can be verified does not depend on what this process can open.
        self._private = {key.kid: self._private[key.kid] for key in keys if key.kid in self._private}
        self._private = {key.kid: self._open(key) for key in keys if key.private_sealed is not None}

    def token_verification_key(self, kid: str) -> ECKey | None:
        """The public key of this name, while a token that it signed can still be good, as far as this process knows.

        A replaced key is published for long after: somebody who stole it must not make tokens for as long.
        """
        until = self._tokens_until.get(kid)
        return None if until is not None and self.clock.real_now() > until else self._public.get(kid)

    def token_key(self) -> jose.PrivateKey:
        """The key that signs now.

        Raises:
            ServiceUnavailable: There is none.
        """
        return self._private[self._current().kid]

    def sign_jws(self, payload: bytes, header: Mapping[str, str] | None = None) -> str:
        """A compact JWS over these bytes."""
        return self.token_key().sign(payload, header)

    def sign_location(self, payload: bytes, jku: str) -> str:
        """A compact JWS over a QR code's payload, with what a payer's institution needs to check it."""
        key = self._current()
        thumbprint = jose.certificate_thumbprint(key.certificates[0])
        return self._private[key.kid].sign(payload, {"jku": jku, "typ": "JWS", "x5t#S256": thumbprint})

    @property
    def current_kid(self) -> str:
        """Of the key that signs now."""
        return self._current().kid

    def sign_detached(self, body: bytes, header: Mapping[str, str | int]) -> str:
        """``header..signature`` over a body that is sent beside it."""
        return self.token_key().sign_detached(body, header)

    def public_key_document(self) -> dict[str, object]:
        """The current key as a JWK, the same as PEM, and every key still needed to verify something.

        Raises:
            ServiceUnavailable: There is no current key.
        """
        key = self._current()
        return {
            **jose.published_jwk(key.kid, key.public_jwk),
            "pem": jose.write_public_pem(self._public[key.kid]),
            "keys": self.key_set()["keys"],
        }

    def key_set(self) -> dict[str, list[dict[str, str]]]:
        """The published keys as a bare JWK set (RFC 7517), the latest first."""
        return {"keys": [jose.published_jwk(key.kid, key.public_jwk) for key in self._published()]}

    def certified_key_set(self) -> dict[str, list[dict[str, str | list[str]]]]:
        """The same set with certificate chains: what ``jku`` of a QR code's payload leads to."""
        return {
            "keys": [
                {**jose.published_jwk(key.kid, key.public_jwk), **jose.certificate_members(key.certificates)}
                for key in self._published()
            ]
        }

    def check(self) -> None:
        """Sign something and verify it.

        Raises:
            ServiceUnavailable: There is no key, its certificate is over, or the keys were not read for long.
        """
        key = self._current()
        if key.expires_at <= self.clock.real_now():
            raise errors.ServiceUnavailable("signing key: its certificate has expired")
        if self.clock.monotonic_s() - self._read_at_s > STALE_AFTER_S:
            raise errors.ServiceUnavailable("signing key: not read from the database for too long")
        if not jose.is_signed_by(self.sign_jws(b"check"), self._public[key.kid]):
            raise errors.ServiceUnavailable("signing key: what it signs cannot be verified")

    def _is_rotation_due(self) -> bool:
        newest = signing_rules.newest_key(self._keys, self._host)
        return signing_rules.is_rotation_due(newest, self.clock.real_now(), _rotated_every(self))

    def _published(self) -> list[SigningKey]:
        return signing_rules.published_keys(self._keys, self.clock.real_now(), _published_for(self))

    def _current(self) -> SigningKey:
        now = self.clock.real_now()
        if self._signing is not None and now < self._signing[1]:
            return self._signing[0]
        key = signing_rules.current_key(self._keys, self._host, now)
        if key is None or key.kid not in self._private:
            raise errors.ServiceUnavailable("signing key: there is none to sign with")
        # It is asked for with every webhook, and the answer changes only when keys are read or the next one's time comes.
        own = [other for other in self._keys if other.host == self._host]
        self._signing = key, signing_rules.next_signs_from(key, own) or datetime.max.replace(tzinfo=UTC)
        return key

    def _open(self, key: SigningKey) -> jose.PrivateKey:
        known = self._private.get(key.kid)
        if known is not None:
            return known
        opened = self.secret_box.open(key.private_sealed or b"", about_key(key.kid))
        return jose.PrivateKey(jose.read_private_key(opened), key.kid)


async def check_signing_key(keyring: Keyring) -> None:
    """What the health check asks.

    Raises:
        ServiceUnavailable: Nothing can be signed; the message says why.
    """
    keyring.check()


def _host(context: SigningContext) -> str:
    """Where QR code payloads are served: the name in the certificates."""
    return urlsplit("//" + context.policy.location_prefix).hostname or ""


def _rotated_every(context: SigningContext) -> timedelta:
    return timedelta(days=context.policy.signing_key_rotation_days)


def _published_for(context: SigningContext) -> timedelta:
    return timedelta(days=context.policy.signing_key_published_days)


def about_key(kid: str) -> str:
    """What the private part of a key is sealed about."""
    return f"signing_key:{kid}"


def _audited(kid: str) -> str:
    return f"signing-key {kid}"


def _told(key: SigningKey) -> Mapping[str, object]:
    """What the audit keeps of a key."""
    return {
        "kid": key.kid,
        "host": key.host,
        "created_at": key.created_at,
        "signs_from": key.signs_from,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
    }
