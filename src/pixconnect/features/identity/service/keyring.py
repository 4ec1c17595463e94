"""The signing keys of one process: which one signs now, and which can still verify something.

A ``Keyring`` reads the keys again when ``access_revision`` has moved, so every process that uses them sees a new or revoked key
within a second. An idle process reads every ``RELOAD_INTERVAL_S``, and before its next use (``look_after_rest``). A
process that has not yet read of a revocation may sign with the revoked key for that long; the others refuse the token already,
and the client requests a new one. ``signing_key.py`` makes and revokes the keys.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from joserfc.jwk import ECKey

from pixconnect.features.identity import rules as signing_rules
from pixconnect.features.identity.rules import Signer, SigningKey
from pixconnect.features.identity.service import signing_key
from pixconnect.features.identity.tables import access as access_store
from pixconnect.features.identity.tables import signing_key as signing_key_store
from pixconnect.kernel.flows.context import Core, Port
from pixconnect.platform import jose
from pixconnect.platform.base import errors
from pixconnect.platform.base.entropy import SealBroken
from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.flow.shares import on_behalf_of_all
from pixconnect.platform.pool import Pool
from pixconnect.platform.shared_look import SharedLook, answer_in_time, wait_for

SIGNER: Final = Port[Signer]("signer")

LOOK_INTERVAL_S = 0.5  # how often a process that uses the keys checks whether ``access_revision`` has moved
RESTED_AFTER_S = 1.0  # a signer waits for a new reading of the keys if the last one is this old
RELOAD_INTERVAL_S = 20.0  # how often a process reads the keys again in any case: three times within ``PUBLISHED_AHEAD``
RELOAD_UNKNOWN_INTERVAL_S = 0.2
"""Minimum interval of readings for requests with an unknown ``kid``, and for the published keys."""
READ_TIMEOUT_S = 2.0
STALE_AFTER_S = 120.0  # the health check fails when the keys were last read this long ago

_log = structlog.get_logger(__name__)


class Keyring:
    """The ``Signer`` of this process; verifiers get public keys from it."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._host = signing_key.own_host(core.policy)
        self._keys: Sequence[SigningKey] = ()
        self._revision: int | None = None
        self._signing: tuple[SigningKey, datetime] | None = None  # the key that signs now, and when the next one replaces it
        self._private: dict[str, jose.PrivateKey] = {}
        self._public: dict[str, ECKey] = {}
        self._tokens_until: dict[str, datetime] = {}  # for each replaced key, when its last token has expired
        self._read_at_s = self._looked_at_s = self._failed_at_s = float("-inf")
        self._is_used = asyncio.Event()
        self.on_look: Callable[[int, float], None] | None = None
        """Receives each reading of ``access_revision``: the value, and when the reading began by the process's clock."""
        self._reading = asyncio.Lock()
        self._shared_look = SharedLook(self._try_to_follow, "look at the keys")
        self._logged_at_s = float("-inf")

    async def start(self) -> None:
        """Make the first key if there is none, and read the keys."""
        await signing_key.rotate_if_due(self._core)
        await self.reload()

    async def keep_fresh(self, look_every_s: float = LOOK_INTERVAL_S, reload_every_s: float = RELOAD_INTERVAL_S) -> None:
        """Follow changes of the keys, and make the next key when it is due; run this as a task and cancel it at the end."""
        try:
            while True:
                await asyncio.sleep(min(look_every_s, reload_every_s))
                # The keys were not used since the last reading: the next use ends the wait.
                await wait_for(self._is_used, max(0.0, reload_every_s - look_every_s))
                self._is_used.clear()
                await self._shared_look.look()
        finally:
            self._shared_look.cancel()

    def note_use(self) -> None:
        """Read again soon: a caller uses something that the reading brings, and the last one is not new."""
        if self._core.clock.monotonic_s() - self._looked_at_s >= LOOK_INTERVAL_S:
            self._is_used.set()

    async def look_after_rest(self) -> None:
        """Read first after a pause; call it before signing."""
        self.note_use()
        if self._core.clock.monotonic_s() - self._looked_at_s >= RESTED_AFTER_S:
            await self._shared_look.look()

    def forget_all(self) -> None:
        """Read the keys before the next is used to sign: the database is another one."""
        self._revision, self._looked_at_s = None, float("-inf")
        self.note_use()

    async def _try_to_follow(self) -> None:
        try:
            await self._follow()
        except (errors.ServiceUnavailable, SealBroken, *DATABASE_FAILED) as error:
            # Counted from its end: signers must not wait one after the other for an unreachable database.
            self._looked_at_s = self._core.clock.monotonic_s()
            # The database may be away for long, and it is read twice a second: log it only now and then.
            if self._core.clock.monotonic_s() - self._logged_at_s >= RELOAD_INTERVAL_S:
                self._logged_at_s = self._core.clock.monotonic_s()
                _log.warning("signing keys not read", reason=type(error).__name__)

    async def _follow(self) -> None:
        began_at_s = self._core.clock.monotonic_s()
        # The keys come with the revision.
        is_old = began_at_s - self._read_at_s >= RELOAD_INTERVAL_S
        if is_old or self._revision != await answer_in_time(access_store.read_revision(self._core.pool), READ_TIMEOUT_S):
            await self.reload()
        if self.on_look is not None and self._revision is not None:
            self.on_look(self._revision, began_at_s)
        self._looked_at_s = max(self._looked_at_s, began_at_s)
        # Checked in memory first: twice a second in every process is too often for the lock of rotation.
        if signing_rules.is_rotation_due(
            signing_rules.newest_key(self._keys, self._host), self._core.clock.real_now(), signing_key.ROTATED_AFTER
        ):
            await signing_key.rotate_if_due(self._core)

    async def reload(self, pool: Pool | None = None) -> None:
        """Read the keys; raises ``SealBroken`` if one that must sign was sealed with another secret key."""
        # Sequentially: an overtaken answer must not bring a revoked key back.
        async with self._reading:
            await self._reload(pool or self._core.pool)

    async def look_for_new(self, pool: Pool | None = None) -> None:
        """Read the keys from now or later, at most five times a second; concurrent callers share one read."""
        asked_at_s = self._core.clock.monotonic_s()
        async with self._reading:
            self._refuse_failed(asked_at_s)
            # The earlier holder of the lock may have begun to read after our request.
            if self._read_at_s >= asked_at_s:
                return
            await asyncio.sleep(max(0.0, self._read_at_s + RELOAD_UNKNOWN_INTERVAL_S - self._core.clock.monotonic_s()))
            await self._reload(pool or self._core.pool)

    async def reload_if_older(self, age_s: float = RELOAD_UNKNOWN_INTERVAL_S) -> None:
        """Read the keys unless that was done just now; concurrent callers share one read."""
        asked_at_s = self._core.clock.monotonic_s()
        async with self._reading:
            self._refuse_failed(asked_at_s)
            if self._core.clock.monotonic_s() - self._read_at_s >= age_s:
                await self._reload(self._core.pool)

    def _refuse_failed(self, asked_at_s: float) -> None:
        # Callers that waited for a hanging database would each wait for it once more, one after the other.
        if self._failed_at_s >= asked_at_s:
            raise _no_answer()

    async def _reload(self, pool: Pool) -> None:
        # Before the query is sent: the answer is at least this new.
        read_at_s = self._core.clock.monotonic_s()
        try:
            # Every caller waits for these keys, so the read must not queue behind the first caller's work.
            with on_behalf_of_all():
                read = await answer_in_time(signing_key_store.read_all(pool), READ_TIMEOUT_S)
        except DATABASE_FAILED:
            self._failed_at_s = self._core.clock.monotonic_s()
            raise _no_answer() from None
        keys = [key for key in read.keys if key.revoked_at is None]
        self._public = {key.kid: self._public.get(key.kid) or jose.read_public_jwk(key.public_jwk) for key in keys}
        self._keys = read.keys
        self._signing = None
        self._revision = read.revision
        self._read_at_s = read_at_s
        self._looked_at_s = max(self._looked_at_s, read_at_s)
        # Another process may see the new key late, and sign with the old one for up to PUBLISHED_AHEAD longer.
        outlived_by = timedelta(seconds=self._core.policy.token_lifetime_s) + signing_rules.PUBLISHED_AHEAD
        self._tokens_until = {
            key.kid: last_signature_at + outlived_by
            for key in keys
            if (last_signature_at := signing_rules.superseded_at(key, read.keys))
        }
        # Last, because opening may fail: this process can verify with keys that it cannot open.
        self._private = {key.kid: self._private[key.kid] for key in keys if key.kid in self._private}
        self._private = {key.kid: self._open(key) for key in keys if key.private_sealed is not None}

    def token_verification_key(self, kid: str) -> ECKey | None:
        """Return the public key of this name, while a token that it signed can still be valid, as far as this process knows."""
        self.note_use()
        until = self._tokens_until.get(kid)
        # A replaced key is published for long, but a thief of the key must not make tokens for as long.
        return None if until is not None and self._core.clock.real_now() > until else self._public.get(kid)

    def token_key(self) -> jose.PrivateKey:
        """The key that signs now; raises ``ServiceUnavailable`` if there is none."""
        return self._private[self._current().kid]

    def sign_jws(self, payload: bytes) -> str:
        return self.token_key().sign(payload)

    def sign_location(self, payload: bytes, jku: str) -> str:
        key = self._current()
        thumbprint = jose.certificate_thumbprint(key.certificates[0])
        return self._private[key.kid].sign(payload, {"jku": jku, "typ": "JWS", "x5t#S256": thumbprint})

    @property
    def current_kid(self) -> str:
        return self._current().kid

    def sign_detached(self, body: bytes, header: Mapping[str, str | int]) -> str:
        return self.token_key().sign_detached(body, header)

    def public_key_document(self) -> dict[str, object]:
        """Return the current key as a JWK and as PEM, and every key still needed to verify something."""
        key = self._current()
        return {
            **jose.published_jwk(key.kid, key.public_jwk),
            "pem": jose.write_public_pem(self._public[key.kid]),
            "keys": self.key_set()["keys"],
        }

    def key_set(self) -> dict[str, list[dict[str, str]]]:
        """Return the published keys as a bare JWK set (RFC 7517), latest first."""
        return {"keys": [jose.published_jwk(key.kid, key.public_jwk) for key in self._published()]}

    def certified_key_set(self) -> dict[str, list[dict[str, str | list[str]]]]:
        """Return the same set with certificate chains: the ``jku`` of a QR code's payload."""
        return {
            "keys": [
                {**jose.published_jwk(key.kid, key.public_jwk), **jose.certificate_members(key.certificates)}
                for key in self._published()
            ]
        }

    def check(self) -> None:
        """Raise ``ServiceUnavailable`` unless this process can sign something that others can verify."""
        key = self._current()
        if key.expires_at <= self._core.clock.real_now():
            raise errors.ServiceUnavailable("signing key: its certificate has expired")
        if self._core.clock.monotonic_s() - self._read_at_s > STALE_AFTER_S:
            raise errors.ServiceUnavailable("signing keys: not read from the database for two minutes; see whether it answers")
        if not jose.is_signed_by(self.sign_jws(b"check"), self._public[key.kid]):
            raise errors.ServiceUnavailable("signing key: what it signs cannot be verified")

    def _published(self) -> list[SigningKey]:
        self.note_use()
        return signing_rules.published_keys(self._keys, self._core.clock.real_now(), signing_key.PUBLISHED_FOR)

    def _current(self) -> SigningKey:
        self.note_use()
        now = self._core.clock.real_now()
        if self._signing is not None and now < self._signing[1]:
            return self._signing[0]
        key = signing_rules.current_key(self._keys, self._host, now)
        if key is None or key.kid not in self._private:
            raise errors.ServiceUnavailable("signing key: there is none to sign with")
        # Cached, because every webhook needs it, and it changes only when keys are read or the next one's time comes.
        own = [other for other in self._keys if other.host == self._host]
        self._signing = key, signing_rules.next_signs_from(key, own) or datetime.max.replace(tzinfo=UTC)
        return key

    def _open(self, key: SigningKey) -> jose.PrivateKey:
        if (known := self._private.get(key.kid)) is not None:
            return known
        opened = self._core.secret_box.open(key.private_sealed or b"", signing_key.about_key(key.kid))
        return jose.PrivateKey(jose.read_private_key(opened), key.kid)


def _no_answer() -> errors.ServiceUnavailable:
    return errors.ServiceUnavailable("signing keys: the database gives no answer")
