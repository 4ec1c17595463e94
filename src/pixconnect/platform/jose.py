"""ES256 only: compact and detached JWS, access tokens, keys as JWK and PEM (RFC 7515, 7517, 7519, 9068).

Reading is strict: base64url must be canonical, or a changed last character would still verify. The algorithm is never taken
from a token: what its header says is only compared.

RSA keys and their signatures over bodies (PKCS #1 v1.5 with SHA-256), as some institutions sign what they send.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Final, cast

import msgspec
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
)
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey
from msgspec import UNSET, Meta, Struct, UnsetType, field

from pixconnect.platform.base import errors

ALGORITHM = "ES256"
TOKEN_TYPE = "at+jwt"  # noqa: S105  a media type, not a secret


class TokenInvalid(Exception):  # noqa: N818  an outcome that the caller handles
    """Not a token that this key signed; the message states the reason without the token's contents."""


class TokenHeader(Struct, frozen=True, kw_only=True):
    """A token's protected header; other members are ignored."""

    alg: str
    kid: str
    typ: str
    crit: list[str] = []  # critical extensions; we support none


class Confirmation(Struct, frozen=True, kw_only=True):
    """The key to which a token is bound (RFC 7800); any other kind makes the token invalid."""

    thumbprint: str = field(name="x5t#S256")  # the thumbprint of the client certificate (RFC 8705)


class Claims(Struct, frozen=True, kw_only=True):
    iss: str
    aud: str
    sub: str  # the client_id
    # A text, as identifiers in tokens are.
    holder_id: Annotated[str, Meta(pattern="^[1-9][0-9]{0,15}$")]
    scope: str  # scopes, separated by spaces
    iat: int  # seconds of Unix time, as ``exp``
    exp: int
    jti: str
    cnf: Confirmation | UnsetType = UNSET


_read_header = msgspec.json.Decoder(TokenHeader).decode
_read_claims = msgspec.json.Decoder(Claims).decode
_write = msgspec.json.Encoder().encode
_es256 = jws.default_registry.get_alg(ALGORITHM)
_ECDSA_SHA256 = ECDSA(SHA256())
_COORDINATE_LENGTH = 32  # octets of each of the two numbers that are a signature (RFC 7518, 3.4)


class PrivateKey:
    def __init__(self, key: ECKey, kid: str) -> None:
        self.kid = kid
        self._key = _private_part(key)
        self._plain_head = _head({"alg": ALGORITHM, "kid": kid})

    def sign(self, payload: bytes, header: Mapping[str, str] | None = None) -> str:
        """Make a compact JWS with the members of ``header`` after ``alg`` and ``kid``."""
        head = _head({"alg": ALGORITHM, "kid": self.kid, **header}) if header else self._plain_head
        signed = head + b"." + encode_base64url(payload)
        return (signed + b"." + self._sign(signed)).decode()

    def sign_detached(self, body: bytes, header: Mapping[str, str | int]) -> str:
        """``header..signature`` over a body that is sent separately (RFC 7515, appendix F)."""
        head = _head({"alg": ALGORITHM, "kid": self.kid, **header})
        return (head + b".." + self._sign(head + b"." + encode_base64url(body))).decode()

    def _sign(self, signed: bytes) -> bytes:
        # As joserfc's ES256 does it, which takes 5 us more of 38 to ask again what kind of key this is.
        r, s = decode_dss_signature(self._key.sign(signed, _ECDSA_SHA256))
        return encode_base64url(r.to_bytes(_COORDINATE_LENGTH) + s.to_bytes(_COORDINATE_LENGTH))


def make_key() -> ECKey:
    return ECKey.generate_key("P-256")


def thumbprint(key: ECKey) -> str:
    """The thumbprint of RFC 7638, which we use as ``kid``."""
    return key.thumbprint()


def write_private_key(key: ECKey) -> bytes:
    """PKCS #8, unencrypted: the caller must seal it at once."""
    return _private_part(key).private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def write_private_pem(key: ECKey) -> bytes:
    """The same for a file of its owner's: what programs that speak TLS read."""
    return _private_part(key).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def read_private_key(pkcs8: bytes) -> ECKey:
    return ECKey.import_key(cast(Any, load_der_private_key(pkcs8, password=None)))


def write_public_jwk(key: ECKey) -> bytes:
    members = key.as_dict(private=False)
    return _write({name: members[name] for name in ("crv", "kty", "x", "y")})


def read_public_jwk(text: bytes) -> ECKey:
    return ECKey.import_key(msgspec.json.decode(text, type=dict[str, str | list[str]]))


def published_jwk(kid: str, public_jwk: bytes) -> dict[str, str]:
    members = msgspec.json.decode(public_jwk, type=dict[str, str])
    return dict(kid=kid, kty=members["kty"], crv=members["crv"], x=members["x"], y=members["y"], alg=ALGORITHM, use="sig")


def write_public_pem(key: ECKey) -> str:
    return key.public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def certificate_members(certificates: tuple[bytes, ...]) -> dict[str, str | list[str]]:
    # ``x5c`` is standard base64, not base64url.
    return {
        "x5c": [base64.b64encode(certificate).decode() for certificate in certificates],
        "x5t#S256": certificate_thumbprint(certificates[0]),
    }


def certificate_thumbprint(leaf: bytes) -> str:
    return encode_base64url(hashlib.sha256(leaf).digest()).decode()


def is_signed_by(compact: str, key: ECKey) -> bool:
    signed, _, signature = compact.encode().rpartition(b".")
    try:
        return _es256.verify(signed, decode_base64url(signature), key)
    except (ValueError, JoseError):
        return False


def sign_token(key: PrivateKey, claims: Claims) -> str:
    return key.sign(_write(claims), {"typ": TOKEN_TYPE})


def read_token_kid(token: bytes) -> str:
    """Read a token's key id from its header; ``TokenInvalid`` unless the header is ours."""
    parts = token.split(b".")
    if len(parts) != 3:
        raise TokenInvalid("must have three parts")
    try:
        header = _read_header(decode_base64url(parts[0]))
    except (ValueError, msgspec.MsgspecError, RecursionError):
        raise TokenInvalid("its header cannot be read") from None
    if header.alg != ALGORITHM:
        raise TokenInvalid(f"must be signed with {ALGORITHM}")
    if header.typ != TOKEN_TYPE or header.crit:
        raise TokenInvalid(f"must be of type {TOKEN_TYPE}")
    return header.kid


def verify_token(token: bytes, key: ECKey) -> Claims:
    """Verify a token's signature and read its claims, which the caller must check; ``TokenInvalid`` if it is not ours."""
    head, body, signature = token.split(b".")
    try:
        is_ours = _es256.verify(head + b"." + body, decode_base64url(signature), key)
        claims = _read_claims(decode_base64url(body)) if is_ours else None
    except (ValueError, JoseError, msgspec.MsgspecError):
        raise TokenInvalid("its claims or its signature cannot be read") from None
    if claims is None:
        raise TokenInvalid("its signature is wrong")
    return claims


def encode_base64url(octets: bytes) -> bytes:
    return base64.urlsafe_b64encode(octets).rstrip(b"=")


def decode_base64url(text: bytes) -> bytes:
    """Decode exactly what ``encode_base64url`` writes; ``ValueError`` for padding, other characters or unused bits."""
    try:
        octets = base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))
    except binascii.Error as error:
        raise ValueError(str(error)) from None
    # Python ignores unused bits and characters that are not base64.
    if encode_base64url(octets) != text:
        raise ValueError("not canonical base64url")
    return octets


def _private_part(key: ECKey) -> EllipticCurvePrivateKey:
    return errors.require(key.private_key, "this key has no private part")


def _head(header: Mapping[str, str | int]) -> bytes:
    return encode_base64url(_write(header))


_SIZE: Final = 2048
_EXPONENT: Final = 65537


class RsaKey(Struct, frozen=True, kw_only=True):
    identifier: str  # the SHA-256 of the public key in DER, in hexadecimal digits
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
        # We made it ourselves: checking its primes again would take longer than a hundred signatures.
        private = load_der_private_key(private_der, None, unsafe_skip_rsa_key_validation=True)
        if not isinstance(private, rsa.RSAPrivateKey):
            raise TypeError("not an RSA key")
        self._private = private

    def sign(self, body: bytes) -> str:
        """In base64."""
        return base64.b64encode(self._private.sign(body, padding.PKCS1v15(), SHA256())).decode()
