"""RSA keys and their signatures over bodies (PKCS #1 v1.5 with SHA-256), as some institutions sign what they send."""

from __future__ import annotations

import base64
import hashlib
from typing import Final

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
)
from msgspec import Struct

_SIZE: Final = 2048
_EXPONENT: Final = 65537


class RsaKey(Struct, frozen=True, kw_only=True):
    identifier: str
    """The SHA-256 of the public key in DER, in hexadecimal digits."""
    public_pem: str
    private_der: bytes


def make_rsa_key() -> RsaKey:
    """A new key; that takes a tenth of a second or more."""
    private = rsa.generate_private_key(public_exponent=_EXPONENT, key_size=_SIZE)
    public = private.public_key()
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return RsaKey(
        identifier=hashlib.sha256(der).hexdigest(),
        public_pem=public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode(),
        private_der=private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()),
    )


class RsaSigner:
    def __init__(self, private_der: bytes) -> None:
        # We made it ourselves: to prove its primes again would take longer than a hundred signatures.
        private = load_der_private_key(private_der, None, unsafe_skip_rsa_key_validation=True)
        if not isinstance(private, rsa.RSAPrivateKey):
            raise TypeError("not an RSA key")
        self._private = private

    def sign(self, body: bytes) -> str:
        """In base64."""
        return base64.b64encode(self._private.sign(body, padding.PKCS1v15(), SHA256())).decode()
