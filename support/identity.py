"""What tests of identity stand on: a clock to set, a context of one "process", and verification by other code than ours."""

import base64
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from pixconnect.adapters.secret_box import AesSecretBox
from pixconnect.adapters.system import SystemEntropy
from pixconnect.domain.clock import Clock, Reading
from pixconnect.domain.holder import Holder
from pixconnect.foundation.pool import open_pool
from pixconnect.usecases import access, holder
from pixconnect.usecases.context import Context, Policy
from pixconnect.usecases.signing_key import Keyring
from support.operators import as_operator

SECRET_KEY = bytes(range(32))
START = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)


class SetClock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.real = START
        self.seconds = 1000.0
        self.offset = timedelta(0)
        self.revision = 0
        self.skew = timedelta(0)

    def set_offset(self, offset: timedelta, revision: int = 0) -> None:
        self.offset, self.revision = offset, revision

    def take(self, reading: Reading) -> datetime:
        self.set_offset(reading.offset, reading.revision)
        return self.real + reading.offset

    def now(self) -> datetime:
        return self.real + self.offset

    def real_now(self) -> datetime:
        return self.real

    def monotonic_s(self) -> float:
        return self.seconds

    def pass_s(self, seconds: float) -> None:
        """Let real time pass."""
        self.real += timedelta(seconds=seconds)
        self.seconds += seconds


def make_policy(**changes: Any) -> Policy:
    """Valid by default."""
    fields: dict[str, Any] = {
        "ispb": "99999003",
        "institution_name": "Pix Connect Sandbox",
        "location_prefix": "127.0.0.1:8080/qr/",
        "location_key_set_url": "http://127.0.0.1:8080/qr/jwks.json",
        "auth_url": "http://127.0.0.1:8080",
        "charge_lifetime_s": 86_400,
        "handover_timeout_s": 60,
        "is_sandbox": True,
    }
    return Policy(**(fields | changes))


@asynccontextmanager
async def open_context(
    service_url: str, clock: Clock, *, secret_key: bytes = SECRET_KEY, **policy: Any
) -> AsyncIterator[Context]:
    """One process's context, with nothing behind it but the database; its signer is a keyring not yet started."""
    pool = await open_pool(
        service_url, role="pixconnect_service", schema="pixconnect", connections_max=10, name="tests of identity"
    )
    entropy = SystemEntropy()
    rules = make_policy(**policy)
    secret_box = AesSecretBox(secret_key, entropy)
    present = {
        "pool": pool,
        "clock": clock,
        "entropy": entropy,
        "policy": rules,
        "signer": Keyring(pool=pool, clock=clock, policy=rules, secret_box=secret_box),
        "secret_box": secret_box,
    }
    absent = dict.fromkeys(Context.__struct_fields__)
    yield Context(**cast(Any, absent | present))
    await pool.close()


def keyring_of(context: Context) -> Keyring:
    """The context's own keyring."""
    assert isinstance(context.signer, Keyring)
    return context.signer


async def start_keyring(context: Context) -> Keyring:
    """The same, ready to sign."""
    keyring = keyring_of(context)
    await keyring.start()
    return keyring


async def make_holder(context: Context, account_number: str = "1001", **changes: Any) -> Holder:
    """Valid by default."""
    fields: dict[str, Any] = {
        "name": "Maria Silva",
        "tax_id": "52998224725",
        "branch": "0001",
        "account_number": account_number,
    }
    return await holder.create_holder(as_operator(context), holder.NewHolder(**(fields | changes)))


def token_request(client_id: str | None, client_secret: str | None, **changes: Any) -> access.TokenRequest:
    """Right but for what it is given."""
    fields: dict[str, Any] = {"grant_type": "client_credentials", "address": "203.0.113.9"}
    return access.TokenRequest(client_id=client_id, client_secret=client_secret, **(fields | changes))


def decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def encode(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


def split(compact: str) -> tuple[dict[str, Any], bytes, bytes]:
    """Header, payload, signature."""
    head, payload, signature = compact.split(".")
    return json.loads(decode(head)), decode(payload), decode(signature)


def public_key(jwk: dict[str, Any]) -> ec.EllipticCurvePublicKey:
    x, y = (int.from_bytes(decode(jwk[name])) for name in ("x", "y"))
    return ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()


def is_signed(signed: str, signature: bytes, key: ec.EllipticCurvePublicKey) -> bool:
    """Verify ES256 with nothing but elliptic curves."""
    assert len(signature) == 64
    der = encode_dss_signature(int.from_bytes(signature[:32]), int.from_bytes(signature[32:]))
    try:
        key.verify(der, signed.encode(), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def thumbprint(octets: bytes) -> str:
    return encode(hashlib.sha256(octets).digest())
