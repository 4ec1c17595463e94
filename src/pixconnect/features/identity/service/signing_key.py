"""The keys that sign tokens, webhooks and QR code payloads: creation, rotation, revocation, removal, and certificates.

A new key is published a minute before it signs, so that every process knows it by then. One that cannot wait signs at once:
the very first, the first for a new host, and the one that follows a revoked key. A process that meets its unknown name reads
the keys again (``keyring.py``). A key is revoked and its successor made in one transaction. Functions that make a key raise
``SealBroken`` if the certificate authority was sealed with another secret key.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlsplit

import structlog
from joserfc.jwk import ECKey
from msgspec import structs

from pixconnect.features.identity import rules as signing_rules
from pixconnect.features.identity.rules import SigningKey
from pixconnect.features.identity.tables import signing_key as signing_key_store
from pixconnect.features.identity.tables.signing_key import Authority
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.context import Core, Operator, Policy, write_alone
from pixconnect.platform import certificates, jose
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection

ROTATED_AFTER: Final = timedelta(days=90)  # a new key is made when the newest is this old: well before its certificate ends
PUBLISHED_FOR: Final = timedelta(days=30)
"""How long a key stays published after its last signature: longer than payers keep a QR code's payload."""
_PRIVATE_KEPT = timedelta(minutes=10)  # how long a private part outlives its last signature: a slow process may still need it
_AUTHORITY_NAME = "Pix Connect CA"
ABOUT_AUTHORITY = "certificate_authority"  # the binding of an authority's sealed private part

_log = structlog.get_logger(__name__)


async def rotate(context: Operator) -> SigningKey:
    """Make a new key now. It is published at once and signs a minute later, unless it is the first for its host."""
    async with write_alone(context.pool) as connection:
        await signing_key_store.lock(connection)
        return await _make_next_key(context, connection, "signing-key rotate")


async def revoke(context: Operator, kid: str) -> SigningKey:
    """Revoke a key, on every process within a second; doing it twice changes nothing.

    Tokens that it signed are refused, and it is not published any more. If it was the current key, a new key signs at once.

    Returns:
        The key that signs for its host now.
    """
    async with write_alone(context.pool) as connection:
        await signing_key_store.lock(connection)
        keys = await signing_key_store.list_all(connection)
        key = errors.found(next((key for key in keys if key.kid == kid), None), f"kid: there is no signing key {kid}")
        now = context.clock.real_now()
        if key.revoked_at is None:
            if signing_rules.is_replacement_needed(key, keys, now):
                # After the revoked one even if two clocks differ: only the order of the keys makes it the successor.
                signs_from = max(now, key.signs_from + timedelta(microseconds=1))
                keys.append(await _make_key(context, connection, key.host, now, signs_from))
            await signing_key_store.revoke(connection, kid, now)
            keys = [structs.replace(one, revoked_at=now) if one.kid == kid else one for one in keys]
            _log.info("signing key revoked", kid=kid)
        current = errors.require(signing_rules.current_key(keys, key.host, now), "a revoked key has no successor")
        (revoked,) = (one for one in keys if one.kid == kid)
        states = dict(before=_audited_state(key), after=_audited_state(revoked))
        await audit.record(context, connection, "signing-key revoke", f"signing-key {kid}", **states)
    return current


async def renew_authority(context: Operator) -> SigningKey:
    """Make a new certificate authority, and a key that it certifies: published at once, it signs a minute later."""
    async with write_alone(context.pool) as connection:
        await signing_key_store.lock(connection)
        await _make_authority(context, connection, context.clock.real_now())
        return await _make_next_key(context, connection, "signing-key renew-authority")


async def list_signing_keys(context: Core) -> list[SigningKey]:
    """List every key that is not deleted yet, including revoked ones, latest first."""
    return await signing_key_store.list_all(context.pool)


async def rotate_if_due(context: Core) -> SigningKey | None:
    """Make a new key if there is none, or if the newest or its certificate is old; delete unneeded keys.

    Every process calls this before it serves and when its keyring finds it due; housekeeping calls it once an hour.
    """
    async with context.pool.acquire() as connection, connection.transaction():
        await signing_key_store.lock(connection)
        keys = await signing_key_store.list_all(connection)
        host = own_host(context.policy)
        newest = signing_rules.newest_key(keys, host)
        made, now = None, context.clock.real_now()
        if signing_rules.is_rotation_due(newest, now, ROTATED_AFTER):
            made = await _make_key(context, connection, host, now, _signs_from(newest, now))
        await _delete_unneeded(context, connection, keys)
        return made


async def _make_next_key(context: Operator, connection: Connection, verb: str) -> SigningKey:
    keys = await signing_key_store.list_all(connection)
    host, now = own_host(context.policy), context.clock.real_now()
    # An operator's environment need not name the service's host: for a host without a key here, the newest key's host is used.
    if keys and signing_rules.newest_key(keys, host) is None:
        host = keys[0].host
    key = await _make_key(context, connection, host, now, _signs_from(signing_rules.newest_key(keys, host), now))
    await audit.record(context, connection, verb, f"signing-key {key.kid}", after=_audited_state(key))
    return key


def _signs_from(newest: SigningKey | None, now: datetime) -> datetime:
    # The first of its host signs at once: nothing else can.
    return now if newest is None else now + signing_rules.PUBLISHED_AHEAD


async def _make_key(context: Core, connection: Connection, host: str, now: datetime, signs_from: datetime) -> SigningKey:
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


async def _open_authority(context: Core, connection: Connection, now: datetime) -> tuple[ECKey, Authority]:
    found, *_ = await signing_key_store.list_authorities(connection) or [None]
    # An authority must outlive its certificates: it is replaced before.
    if found is not None and found.expires_at >= now + certificates.LEAF_LIFETIME:
        return jose.read_private_key(context.secret_box.open(found.private_sealed, ABOUT_AUTHORITY)), found
    return await _make_authority(context, connection, now)


async def _make_authority(context: Core, connection: Connection, now: datetime) -> tuple[ECKey, Authority]:
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


async def _delete_unneeded(context: Core, connection: Connection, keys: list[SigningKey]) -> None:
    now = context.clock.real_now()
    kept = {key.kid for key in signing_rules.published_keys(keys, now, PUBLISHED_FOR)}
    # Revoked keys are not published, but operators can look them up for as long.
    kept |= {key.kid for key in keys if key.revoked_at is not None and now <= key.revoked_at + PUBLISHED_FOR}
    done = [
        key.kid
        for key in keys
        if (last_signature_at := signing_rules.superseded_at(key, keys)) and last_signature_at + _PRIVATE_KEPT < now
    ]
    await signing_key_store.delete(connection, [key.kid for key in keys if key.kid not in kept])
    # Still needed to verify, but signing with it is no longer possible, even with our secret key.
    await signing_key_store.forget_private(connection, done)


def own_host(policy: Policy) -> str:
    """Return the host of QR code payloads: the name in the certificates."""
    return urlsplit("//" + policy.location_prefix).hostname or ""


def about_key(kid: str) -> str:
    return f"signing_key:{kid}"


def _audited_state(key: SigningKey) -> Mapping[str, object]:
    return {name: getattr(key, name) for name in ("kid", "host", "created_at", "signs_from", "expires_at", "revoked_at")}
