"""What we sign with: keys that come, sign, stay published, and go.

::

    created ── published, does not sign yet ── signs_from ── signs ── next key's signs_from ── published ── forgotten
               (every process has time to reload)                     (for 30 days: what it signed can still be verified)

    revoked, at any moment ── neither signs nor verifies nor is published, from now on

Each key has one certificate for its whole life, and a new certificate means a new key: so a key id, a key and a certificate's
thumbprint never come apart between two processes. The certificate names the host that payloads are served from; a process signs
with the keys of its own host, so that one that was told another address spoils nothing for the others.
Keys and certificates keep real time, whatever the sandbox clock says.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from msgspec import Struct, structs

PUBLISHED_AHEAD = timedelta(seconds=60)
"""How long a new key is published before it signs; every process reloads its keys several times within it."""

CERTIFICATE_RENEWAL = timedelta(days=30)
"""A key is replaced when its certificate has less than this left."""


class SigningKey(Struct, frozen=True, kw_only=True):
    """An ES256 key pair.

    Attributes:
        kid: Its name, the RFC 7638 thumbprint.
        public_jwk: JSON of the public key: ``crv``, ``kty``, ``x``, ``y``.
        private_sealed: PKCS #8, sealed about ``signing_key:<kid>``; ``None`` once it signs no more.
        certificates: DER, the leaf first, then who signed it.
        host: In the leaf's name: where the payloads that it signs are served.
        expires_at: The leaf's last instant.
        created_at: Real time.
        signs_from: Real time; it signs until the next key does.
        revoked_at: Since when it is worth nothing; real time.
    """

    kid: str
    public_jwk: bytes
    private_sealed: bytes | None
    certificates: tuple[bytes, ...]
    host: str
    expires_at: datetime
    created_at: datetime
    signs_from: datetime
    revoked_at: datetime | None = None


class Signer(Protocol):
    """Signs with the current key."""

    @property
    def current_kid(self) -> str:
        """Of the key that signs now.

        Raises:
            ServiceUnavailable: There is none.
        """
        ...

    def sign_jws(self, payload: bytes, header: Mapping[str, str] | None = None) -> str:
        """Sign a compact JWS.

        Args:
            payload: The bytes.
            header: What the protected header has beside ``alg`` and ``kid``.

        Returns:
            ``header.payload.signature``.

        Raises:
            ServiceUnavailable: There is no key to sign with.
        """
        ...

    def sign_location(self, payload: bytes, jku: str) -> str:
        """Sign a QR code's payload for any payer's institution.

        Args:
            payload: JSON.
            jku: Where the key is served with its certificates.

        Returns:
            A compact JWS with the header ``alg kid jku typ x5t#S256``.

        Raises:
            ServiceUnavailable: There is no key to sign with.
        """
        ...

    def sign_detached(self, body: bytes, header: Mapping[str, str | int]) -> str:
        """Sign a body that is sent beside its signature (RFC 7515, appendix F).

        Args:
            body: The bytes.
            header: What the protected header has beside ``alg`` and ``kid``.

        Returns:
            ``header..signature``.

        Raises:
            ServiceUnavailable: There is no key to sign with.
        """
        ...


def newest_key(keys: Sequence[SigningKey], host: str) -> SigningKey | None:
    """Of a host's keys the latest that is not revoked, whether it signs yet or not."""
    return max((key for key in keys if key.host == host and key.revoked_at is None), key=_age, default=None)


def current_key(keys: Sequence[SigningKey], host: str, now: datetime) -> SigningKey | None:
    """The key that signs for a host.

    Of those that no other has followed yet it is the oldest. Where the current one was revoked this is the next, even if its
    time is only about to come: the process that made it may have had a clock a little ahead.
    """
    own = [key for key in keys if key.host == host]
    still_sign = [
        key
        for key in own
        if key.revoked_at is None and ((ends_at := next_signs_from(key, own)) is None or ends_at > now)
    ]
    return min(still_sign, key=_age, default=None)


def superseded_at(key: SigningKey, keys: Sequence[SigningKey]) -> datetime | None:
    """When a key signs, or signed, for the last time; ``None`` while no later key is known.

    The last key of a host that nobody serves any more is over with its certificate.
    """
    ends_at = next_signs_from(key, [other for other in keys if other.host == key.host])
    if ends_at is not None:
        return ends_at
    has_later = any(_age(other) > _age(key) for other in keys)
    return key.expires_at if has_later else None


def is_replacement_needed(key: SigningKey, keys: Sequence[SigningKey], now: datetime) -> bool:
    """Whether a host could not sign any more, if this key of it were revoked now."""
    remaining = [other for other in keys if other.kid != key.kid]
    revoked = structs.replace(key, revoked_at=now)
    return current_key([*remaining, revoked], key.host, now) is None


def published_keys(keys: Sequence[SigningKey], now: datetime, published_for: timedelta) -> list[SigningKey]:
    """The keys still needed to verify something, and those about to sign; the latest first."""

    def is_published(key: SigningKey) -> bool:
        if key.revoked_at is not None:
            return False
        last_signature_at = superseded_at(key, keys)
        return last_signature_at is None or now <= last_signature_at + published_for

    return sorted((key for key in keys if is_published(key)), key=_age, reverse=True)


def is_rotation_due(newest: SigningKey | None, now: datetime, rotated_every: timedelta) -> bool:
    """Whether a host needs a new key: it has none, or the newest is old, or its certificate nearly over."""
    return newest is None or now >= newest.created_at + rotated_every or now >= newest.expires_at - CERTIFICATE_RENEWAL


def next_signs_from(key: SigningKey, own: Sequence[SigningKey]) -> datetime | None:
    """When the next key of the same host began to sign, or will.

    A revoked key counts, or those before it would come back to life; not so one that was revoked before it ever signed.
    """
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
