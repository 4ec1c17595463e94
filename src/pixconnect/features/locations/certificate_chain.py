"""Verifies an outside certificate chain, and the signature of a dynamic QR code's payload.

::

    a trusted authority ──has issued──► a certificate of the chain ──has issued──► ... ──has issued──► leaf (names the host)

Verification starts at the authorities, because the other side chose the chain's keys, and a key determines the cost of
verifying: no key verifies anything before a trusted one has vouched for it. Until then a certificate is parsed only as far as
its size bounds the cost.

We verify the chain ourselves, because the library verifies the profile of web servers, which requires a purpose and a subject
alternative name that certificates for Pix payloads need not have. Validity is by real time. Revocation is not checked.

A payload is a compact JWS whose header names a key (``kid``), where the institution publishes it (``jku``), and its certificate
(``x5t#S256``, in older ones ``x5t``). The header may choose any algorithm of the scheme, and the key must be of that
algorithm's type. We trust nothing from the header before we trust the certificate.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from ipaddress import ip_address
from typing import Annotated, Final, TypeVar

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, SECP384R1, SECP521R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA1, SHA256, SHA384, SHA512
from cryptography.x509.oid import NameOID
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey
from joserfc.jws import JWSRegistry
from msgspec import Meta, Struct, field

from pixconnect.features.sandbox.rules import READ_AUTHORITY, SandboxControl, SandboxUnavailable
from pixconnect.kernel.rules.location import LocationUnreachable
from pixconnect.platform import jose
from pixconnect.platform.base import errors
from pixconnect.platform.json_members import refuse_repeated

Trusted = Callable[[], Awaitable[Sequence[x509.Certificate]]]
"""Returns the trusted authorities; raises ``LocationUnreachable`` if fetching them gets no answer."""

CHAIN_LENGTH_MAX: Final = 8
CERTIFICATE_OCTETS_MAX: Final = 4096
RSA_BITS_MIN: Final = 2048
RSA_BITS_MAX: Final = 4096
# The scheme sets no maximum; in practice it is 65,537. Verification time is proportional to its length.
_RSA_EXPONENT_BITS_MAX: Final = 32
Extension = TypeVar("Extension", bound=x509.ExtensionType)

_UNDERSTOOD: Final = (x509.BasicConstraints, x509.KeyUsage, x509.SubjectAlternativeName, x509.ExtendedKeyUsage)
_UNREADABLE: Final = (
    ValueError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)


class ChainRefused(Exception):  # noqa: N818  an outcome that the caller handles
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def trust_bundle(pem: bytes) -> Trusted:
    """Trust the authorities of a PEM bundle, as live mode does; ``ValueError`` if it has none."""
    authorities = x509.load_pem_x509_certificates(pem)

    async def read() -> Sequence[x509.Certificate]:
        return authorities

    return read


def trust_sandbox(control: SandboxControl) -> Trusted:
    async def read() -> Sequence[x509.Certificate]:
        # Read each time: a restarted sandbox has another authority.
        try:
            pem = await control.call(READ_AUTHORITY, None)
        except SandboxUnavailable as error:
            raise LocationUnreachable(f"the sandbox did not name its authority: {error}") from error
        return x509.load_pem_x509_certificates(pem.encode())

    return read


def verify_chain(chain: Sequence[bytes], host: str, trusted: Sequence[x509.Certificate], now: datetime) -> x509.Certificate:
    """Verify a chain in DER, leaf first, for a name in lower case or an IP address, and return its leaf.

    Raises:
        ChainRefused: It leads to no trusted authority or is not for the name; the message continues after "certificate".
    """
    if not 0 < len(chain) <= CHAIN_LENGTH_MAX:
        raise ChainRefused(f"must come in a chain of 1 to {CHAIN_LENGTH_MAX}")
    if any(len(der) > CERTIFICATE_OCTETS_MAX for der in chain):
        raise ChainRefused(f"or one of its chain has more than {CERTIFICATE_OCTETS_MAX} octets")
    try:
        leaf, *others = [x509.load_der_x509_certificate(der) for der in chain]
        for one in (leaf, *others):
            _check_key(one)
        _descend(leaf, others, trusted, now)
        _check_leaf(leaf, host, now)
    except _UNREADABLE as error:
        raise ChainRefused("or its chain cannot be read") from error
    return leaf


def _check_key(certificate: x509.Certificate) -> None:
    match key := certificate.public_key():
        case RSAPublicKey():
            if not RSA_BITS_MIN <= key.key_size <= RSA_BITS_MAX:
                raise ChainRefused(f"or one of its chain has an RSA key of not {RSA_BITS_MIN} to {RSA_BITS_MAX} bits")
            exponent = key.public_numbers().e
            if exponent.bit_length() > _RSA_EXPONENT_BITS_MAX or exponent % 2 == 0:
                raise ChainRefused("or one of its chain has an RSA key whose exponent is not odd and below 2^32")
        case EllipticCurvePublicKey(curve=SECP256R1() | SECP384R1() | SECP521R1()):
            pass
        case _:
            raise ChainRefused("or one of its chain has a key that is neither RSA nor of P-256, P-384 or P-521")


def _check_leaf(leaf: x509.Certificate, host: str, now: datetime) -> None:
    if now < leaf.not_valid_before_utc:
        raise ChainRefused("is not valid yet")
    if now > leaf.not_valid_after_utc:
        raise ChainRefused("has expired")
    # A critical extension may restrict the certificate: an unknown one is never ignored.
    if not _is_understood(leaf):
        raise ChainRefused("has a critical extension that we do not support")
    usage = _find(leaf, x509.KeyUsage)
    if usage is not None and not usage.digital_signature:
        raise ChainRefused("is not meant for signing")
    if not _names_host(leaf, host):
        raise ChainRefused("does not name the location's host")


def _descend(
    leaf: x509.Certificate, others: Sequence[x509.Certificate], trusted: Sequence[x509.Certificate], now: datetime
) -> None:
    left = list(others)
    # Each candidate has the number of authorities that the ones above it still permit between it and the leaf.
    authorities = [(float("inf"), authority) for authority in trusted]
    while authorities:
        # Largest room first, so each certificate that it issued gets as much room as it can have.
        authorities.sort(key=lambda each: each[0])
        room_above, authority = authorities.pop()
        below = [one for one in (leaf, *left) if _has_signed(authority, one)]
        # An authority's rights are checked only if it has signed a certificate of this chain.
        room = min(room_above, _room_below(authority, now)) if below else -1
        if room < 0:
            continue
        if leaf in below:
            return
        # Each becomes an authority once, so that a cycle of two ends the search.
        if room:
            left = [one for one in left if one not in below]
            authorities += [(room - 1, one) for one in below]
    raise ChainRefused("does not lead to an authority that is trusted")


def _has_signed(issuer: x509.Certificate, subject: x509.Certificate) -> bool:
    # SHA-1 can be forged.
    if not isinstance(subject.signature_hash_algorithm, SHA256 | SHA384 | SHA512):
        return False
    try:
        subject.verify_directly_issued_by(issuer)
    except (InvalidSignature, TypeError, ValueError):
        return False
    return True


def _room_below(issuer: x509.Certificate, now: datetime) -> float:
    """Return how many authorities this one permits between itself and the leaf; -1 if it is no authority."""
    if not issuer.not_valid_before_utc <= now <= issuer.not_valid_after_utc:
        return -1
    limits, usage = _find(issuer, x509.BasicConstraints), _find(issuer, x509.KeyUsage)
    if limits is None or not limits.ca or (usage is not None and not usage.key_cert_sign) or not _is_understood(issuer):
        return -1
    return float("inf") if limits.path_length is None else limits.path_length


def _names_host(leaf: x509.Certificate, host: str) -> bool:
    names = _find(leaf, x509.SubjectAlternativeName)
    # Older certificates have the name in their subject alone.
    if names is None:
        return any(_covers(str(name.value), host) for name in leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME))
    try:
        return ip_address(host) in names.get_values_for_type(x509.IPAddress)
    except ValueError:
        return any(_covers(name, host) for name in names.get_values_for_type(x509.DNSName))


def _covers(name: str, host: str) -> bool:
    # An asterisk matches exactly one label at the left, and never a whole top-level domain.
    if name.startswith("*."):
        return "." in name[2:] and name[1:].lower() == host[host.find(".") :]
    return name.lower() == host


def _is_understood(certificate: x509.Certificate) -> bool:
    return all(isinstance(one.value, _UNDERSTOOD) for one in certificate.extensions if one.critical)


def _find(certificate: x509.Certificate, kind: type[Extension]) -> Extension | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


# One more than a chain may have, which is refused by name.
_CHAIN: Final = Annotated[list[str], Meta(max_length=CHAIN_LENGTH_MAX + 1)]
_CURVES: Final = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_algorithms = JWSRegistry(algorithms=[*_CURVES, *_RSA])

Jwk = Mapping[str, object]  # a published key; unused fields may have any form


class PayloadHeader(Struct, frozen=True, kw_only=True):
    alg: str
    kid: str
    jku: str  # URL of the institution's JWK set
    x5t_s256: str | None = field(default=None, name="x5t#S256")  # SHA-256 of the key's certificate
    x5t: str | None = None  # its SHA-1, in older payloads
    crit: object = None  # critical extensions; we support none


class SignedPayload(Struct, frozen=True, kw_only=True):
    """A compact JWS that is not verified yet."""

    header: PayloadHeader
    text: bytes  # header and payload as sent, which are the signed bytes
    payload: bytes
    signature: bytes


class _KeySet(Struct, frozen=True, kw_only=True):
    keys: list[dict[str, object]]


_read_header = msgspec.json.Decoder(PayloadHeader).decode
_read_key_set = msgspec.json.Decoder(_KeySet).decode


def parse_jws(octets: bytes) -> SignedPayload:
    """Parse a compact JWS; raises ``InvalidQrCode`` for anything else, or a JWS outside of the scheme."""
    parts = octets.strip().split(b".")
    if len(parts) != 3:
        raise refusal("no compact JWS")
    try:
        head, payload, signature = [jose.decode_base64url(part) for part in parts]
        header = _read_header(head)
        refuse_repeated(head, None)
    except (msgspec.MsgspecError, ValueError, RecursionError, errors.BadRequest) as error:
        raise refusal(f"no compact JWS that can be read: {error}") from None
    if header.alg not in _CURVES and header.alg not in _RSA:
        raise refusal("not signed with an algorithm of the scheme (RS, PS or ES, 256 to 512)")
    if header.crit is not None:
        raise refusal("signed with extensions (crit) that we do not support")
    if header.x5t_s256 is None and header.x5t is None:
        raise refusal("signed with a header that names no certificate (x5t#S256)")
    return SignedPayload(header=header, text=parts[0] + b"." + parts[1], payload=payload, signature=signature)


def select_key(key_set: bytes, header: PayloadHeader) -> Jwk | None:
    """Find the key of a JWK set with the header's ``kid`` and certificate; ``InvalidQrCode`` if it is no JWK set."""
    try:
        keys = _read_key_set(key_set).keys
        refuse_repeated(key_set, None)
    except (msgspec.MsgspecError, ValueError, RecursionError, errors.BadRequest) as error:
        raise refusal(f"signed with a key whose jku serves no JWK set: {error}") from None
    member, thumbprint = _thumbprint_of(header)
    return next((key for key in keys if key.get("kid") == header.kid and _strip_padding(key.get(member)) == thumbprint), None)


def verify_payload(signed: SignedPayload, key: Jwk, host: str, trusted: Sequence[x509.Certificate], now: datetime) -> None:
    """Verify the certificate of a payload's key, then the signature; ``InvalidQrCode`` names the fault."""
    try:
        leaf = verify_chain(_decode_chain(key), host, trusted, now)
    except ChainRefused as refused:
        raise refusal(f"signed with a key whose certificate {refused.reason}") from None
    member, thumbprint = _thumbprint_of(signed.header)
    # SHA-1 only distinguishes certificates here: we trust this one for its chain.
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
    """Strip padding: Base64url of a JWK has none (RFC 7515, 2), and several institutions write it all the same."""
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
    # Only the numbers are used: nothing else in the key may change how we verify.
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
