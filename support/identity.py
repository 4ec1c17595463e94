"""A service that signs, for tests of identity, and verification by independent code."""

import base64
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from pixconnect.features.identity.service.keyring import SIGNER, Keyring
from pixconnect.features.identity.service.token_issuer import TokenRequest
from pixconnect.kernel.flows import holder
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules.holder import Holder
from pixconnect.platform.base.clock import Clock
from support.operators import as_operator
from support.postgres import Addresses
from support.records import a_new_holder
from support.service import open_service

SECRET_KEY = bytes(range(32))


@asynccontextmanager
async def open_context(
    database: Addresses, clock: Clock, *, secret_key: bytes = SECRET_KEY, **policy: Any
) -> AsyncIterator[Context]:
    """The context of a service that signs; its keyring is not started yet."""
    async with open_service(database, clock=clock, secret_key=secret_key, **policy) as service:
        yield service.context


def keyring_of(context: Context) -> Keyring:
    assert isinstance(context.port(SIGNER), Keyring)
    return context.port(SIGNER)


async def start_keyring(context: Context) -> Keyring:
    keyring = keyring_of(context)
    await keyring.start()
    return keyring


def published_kids(keyring: Keyring) -> list[str]:
    return [key["kid"] for key in keyring.key_set()["keys"]]


async def make_holder(context: Context, account_number: str = "1001", **changes: Any) -> Holder:
    new = a_new_holder(**({"account_number": account_number} | changes))
    return await holder.create_holder(as_operator(context), new)


def token_request(client_id: str | None, client_secret: str | None, **changes: Any) -> TokenRequest:
    fields: dict[str, Any] = {"grant_type": "client_credentials", "address": "203.0.113.9"}
    return TokenRequest(client_id=client_id, client_secret=client_secret, **(fields | changes))


def decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def encode(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


def split(compact: str) -> tuple[dict[str, Any], bytes, bytes]:
    head, payload, signature = compact.split(".")
    return json.loads(decode(head)), decode(payload), decode(signature)


def public_key(jwk: dict[str, Any]) -> ec.EllipticCurvePublicKey:
    x, y = (int.from_bytes(decode(jwk[name])) for name in ("x", "y"))
    return ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()


def is_signed(signed: str, signature: bytes, key: ec.EllipticCurvePublicKey) -> bool:
    """Verify ES256 with elliptic curve arithmetic alone."""
    assert len(signature) == 64
    der = encode_dss_signature(int.from_bytes(signature[:32]), int.from_bytes(signature[32:]))
    try:
        key.verify(der, signed.encode(), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def thumbprint(octets: bytes) -> str:
    return encode(hashlib.sha256(octets).digest())
