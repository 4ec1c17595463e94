"""Signing keys: when they sign, and how long they stay published.

::

    created ── published, does not sign yet ── signs_from ── signs ── next key's signs_from ── published ── forgotten
               (every process has time to reload)                   (30 days: its signatures can still be verified)

    revoked, at any moment ── neither signs nor verifies nor is published, from now on

A key has one certificate for its whole life, and a new certificate means a new key: so a key id, a key and a certificate's
thumbprint never differ between two processes. The certificate names the host that serves payloads, and a process signs with the
keys of the process's host, so a process with a wrong address does not affect the others. All times are real time.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from msgspec import Struct, structs

PUBLISHED_AHEAD = timedelta(seconds=60)
"""A new key is published this long before it signs; every process reloads its keys several times within it."""

CERTIFICATE_RENEWAL = timedelta(days=30)  # a key is replaced when its certificate has less than this left


class SigningKey(Struct, frozen=True, kw_only=True):
    kid: str  # the RFC 7638 thumbprint
    public_jwk: bytes  # JSON: ``crv``, ``kty``, ``x``, ``y``
    private_sealed: bytes | None  # PKCS #8, bound by ``signing_key:<kid>``; ``None`` once it no longer signs
    certificates: tuple[bytes, ...]  # DER, the leaf first, then its issuers
    host: str  # the host in the leaf, which serves the payloads that it signs
    expires_at: datetime
    created_at: datetime
    signs_from: datetime
    revoked_at: datetime | None = None


class Signer(Protocol):
    """Signs with the current key; raises ``ServiceUnavailable`` if there is none."""

    @property
    def current_kid(self) -> str: ...

    async def look_after_rest(self) -> None:
        """Load revocations made during a pause in signing; call it before signing."""
        ...

    def sign_jws(self, payload: bytes) -> str:
        """Sign a compact JWS with the header ``alg kid``."""
        ...

    def sign_location(self, payload: bytes, jku: str) -> str:
        """Sign a QR code's payload as a compact JWS with the header ``alg kid jku typ x5t#S256``."""
        ...

    def sign_detached(self, body: bytes, header: Mapping[str, str | int]) -> str:
        """Sign a body that is sent beside its signature, ``header..signature`` (RFC 7515, appendix F)."""
        ...


def newest_key(keys: Sequence[SigningKey], host: str) -> SigningKey | None:
    return max((key for key in keys if key.host == host and key.revoked_at is None), key=_age, default=None)


def current_key(keys: Sequence[SigningKey], host: str, now: datetime) -> SigningKey | None:
    own = [key for key in keys if key.host == host]
    still_sign = [
        key for key in own if key.revoked_at is None and ((ends_at := next_signs_from(key, own)) is None or ends_at > now)
    ]
    # The oldest key without a later active one. If its predecessor was revoked it is the next, even if its time has not quite
    # come: the clock of the process that made it may have been a little ahead.
    return min(still_sign, key=_age, default=None)


def superseded_at(key: SigningKey, keys: Sequence[SigningKey]) -> datetime | None:
    """Return when a key stops signing; ``None`` while no later key is known."""
    if (ends_at := next_signs_from(key, [other for other in keys if other.host == key.host])) is not None:
        return ends_at
    # Newer keys exist and none signs for this host: no process serves the host any more, and its last key ends with its
    # certificate.
    has_later = any(_age(other) > _age(key) for other in keys)
    return key.expires_at if has_later else None


def is_replacement_needed(key: SigningKey, keys: Sequence[SigningKey], now: datetime) -> bool:
    """Whether a host could not sign any more if this key were revoked now."""
    remaining = [other for other in keys if other.kid != key.kid]
    revoked = structs.replace(key, revoked_at=now)
    return current_key([*remaining, revoked], key.host, now) is None


def published_keys(keys: Sequence[SigningKey], now: datetime, published_for: timedelta) -> list[SigningKey]:
    """Return the keys that may still verify something, and those about to sign; latest first."""

    def is_published(key: SigningKey) -> bool:
        if key.revoked_at is not None:
            return False
        last_signature_at = superseded_at(key, keys)
        return last_signature_at is None or now <= last_signature_at + published_for

    return sorted((key for key in keys if is_published(key)), key=_age, reverse=True)


def is_rotation_due(newest: SigningKey | None, now: datetime, rotated_every: timedelta) -> bool:
    """Whether a host needs a new key: it has none, or the newest is old, or its certificate is about to expire."""
    return newest is None or now >= newest.created_at + rotated_every or now >= newest.expires_at - CERTIFICATE_RENEWAL


def next_signs_from(key: SigningKey, own: Sequence[SigningKey]) -> datetime | None:
    """Return when the next key of the same host began to sign, or will."""
    # A revoked key counts too, or its predecessors would sign again; except one revoked before it ever signed.
    return min(
        (
            other.signs_from
            for other in own
            if _age(other) > _age(key) and (other.revoked_at is None or other.revoked_at >= other.signs_from)
        ),
        default=None,
    )


def _age(key: SigningKey) -> tuple[datetime, datetime, str]:
    return key.signs_from, key.created_at, key.kid
