"""Verifies the signature of a dynamic QR code's payload with the key that its institution publishes.

A payload is a compact JWS whose header names a key (``kid``), where the institution publishes it (``jku``), and its
certificate (``x5t#S256``, in older ones ``x5t``). The header may choose any algorithm of the scheme, and the key must be of
that algorithm's type. We trust nothing from the header before we trust the certificate.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Final

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey
from joserfc.jws import JWSRegistry
from msgspec import Meta, Struct, field

from pixconnect.adapters.certificate_chain import CHAIN_LENGTH_MAX, ChainRefused, verify_chain
from pixconnect.domain.frame import errors
from pixconnect.foundation import jose

# One more than a chain may have, which is refused by name.
_CHAIN: Final = Annotated[list[str], Meta(max_length=CHAIN_LENGTH_MAX + 1)]
_CURVES: Final = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_algorithms = JWSRegistry(algorithms=[*_CURVES, *_RSA])

Jwk = Mapping[str, object]
"""A published key; fields that we do not need may have any form."""


class PayloadHeader(Struct, frozen=True, kw_only=True):
    alg: str
    kid: str
    jku: str
    """URL of the institution's JWK set."""
    x5t_s256: str | None = field(default=None, name="x5t#S256")
    """SHA-256 of the key's certificate."""
    x5t: str | None = None
    """SHA-1 of it, in older payloads."""
    crit: object = None
    """Extensions that a reader must understand; we understand none."""


class SignedPayload(Struct, frozen=True, kw_only=True):
    """A compact JWS that is not verified yet."""

    header: PayloadHeader
    text: bytes
    """Header and payload as they were sent: this is what is signed."""
    payload: bytes
    signature: bytes


class _KeySet(Struct, frozen=True, kw_only=True):
    keys: list[dict[str, object]]


_read_header = msgspec.json.Decoder(PayloadHeader).decode
_read_key_set = msgspec.json.Decoder(_KeySet).decode


def parse_jws(octets: bytes) -> SignedPayload:
    """Parse a compact JWS; ``InvalidQrCode`` if it is none, or not one of the scheme."""
    parts = octets.strip().split(b".")
    if len(parts) != 3:
        raise refusal("no compact JWS")
    try:
        head, payload, signature = [jose.decode_base64url(part) for part in parts]
        header = _read_header(head)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise refusal(f"no compact JWS that can be read: {error}") from None
    if header.alg not in _CURVES and header.alg not in _RSA:
        raise refusal("not signed with an algorithm of the scheme (RS, PS or ES, 256 to 512)")
    if header.crit is not None:
        raise refusal("signed with extensions (crit) that we do not support")
    if header.x5t_s256 is None and header.x5t is None:
        raise refusal("signed with a header that names no certificate (x5t#S256)")
    return SignedPayload(header=header, text=parts[0] + b"." + parts[1], payload=payload, signature=signature)


def select_key(key_set: bytes, header: PayloadHeader) -> Jwk | None:
    """The key of a JWK set with the header's ``kid`` and certificate; ``InvalidQrCode`` if it is no JWK set."""
    try:
        keys = _read_key_set(key_set).keys
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise refusal(f"signed with a key whose jku serves no JWK set: {error}") from None
    member, thumbprint = _thumbprint_of(header)
    return next(
        (key for key in keys if key.get("kid") == header.kid and _strip_padding(key.get(member)) == thumbprint), None
    )


def verify_payload(
    signed: SignedPayload, key: Jwk, host: str, trusted: Sequence[x509.Certificate], now: datetime
) -> None:
    """Verify the certificate of a payload's key, then the signature; ``InvalidQrCode`` says what is wrong."""
    try:
        leaf = verify_chain(_decode_chain(key), host, trusted, now)
    except ChainRefused as refused:
        raise refusal(f"signed with a key whose certificate {refused.reason}") from None
    member, thumbprint = _thumbprint_of(signed.header)
    # SHA-1 only tells certificates apart here: we trust this one for its chain.
    digest = leaf.fingerprint(SHA256() if member == "x5t#S256" else SHA1())  # noqa: S303
    if jose.encode_base64url(digest).decode() != thumbprint:
        raise refusal(f"signed with a key whose {member} is not that of its certificate")
    public_key = _import_key(key, leaf, signed.header.alg)
    try:
        is_signed = _algorithms.get_alg(signed.header.alg).verify(signed.text, signed.signature, public_key)
    except (JoseError, ValueError):
        is_signed = False
    if not is_signed:
        raise refusal("not signed with the key that it names")


def refusal(what: str) -> errors.InvalidQrCode:
    return errors.InvalidQrCode(f"emv: what its location serves is {what}")


def _thumbprint_of(header: PayloadHeader) -> tuple[str, str | None]:
    member, thumbprint = ("x5t", header.x5t) if header.x5t_s256 is None else ("x5t#S256", header.x5t_s256)
    return member, _strip_padding(thumbprint)


def _strip_padding(thumbprint: object) -> str | None:
    """Base64url of a JWK has no padding (RFC 7515, 2), and several institutions write it all the same."""
    return thumbprint.rstrip("=") if isinstance(thumbprint, str) else None


def _decode_chain(key: Jwk) -> list[bytes]:
    chain = key.get("x5c")
    try:
        texts = msgspec.convert(chain, _CHAIN)
        return [base64.b64decode(text, validate=True) for text in texts]
    except (msgspec.ValidationError, binascii.Error, ValueError):
        raise refusal("signed with a key whose certificate chain (x5c) cannot be read") from None


def _import_key(key: Jwk, leaf: x509.Certificate, alg: str) -> RSAKey | ECKey:
    try:
        certified = leaf.public_key()
        published = _read_key(key, alg)
    except (JoseError, UnsupportedAlgorithm, ValueError, TypeError):
        raise refusal(f"signed with a key that cannot be read, or not used for {alg}") from None
    # The certificate vouches for its own key only.
    if published.public_key != certified:
        raise refusal("signed with a key that is not its certificate's")
    return published


def _read_key(key: Jwk, alg: str) -> RSAKey | ECKey:
    # We take over only the numbers: nothing else in the key may change how we verify.
    curve = _CURVES.get(alg)
    names = ("kty", "n", "e") if curve is None else ("kty", "crv", "x", "y")
    numbers = msgspec.convert({name: key.get(name) for name in names}, dict[str, str])
    if numbers["kty"] != ("RSA" if curve is None else "EC") or key.get("use", "sig") != "sig":
        raise ValueError("another type or use")
    if curve is None:
        return RSAKey.import_key({**numbers})
    if numbers["crv"] != curve:
        raise ValueError("another curve")
    return ECKey.import_key({**numbers})
