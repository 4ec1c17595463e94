"""Verifies that somebody else's certificate chain names a host and leads to a trusted authority.

::

    leaf (names the host) ──issued by──► another certificate of the chain ──issued by──► ... ──issued by──► a trusted authority

We follow the chain ourselves, because the library verifies the profile of web servers, which demands a purpose and a subject
alternative name that certificates for Pix payloads need not have. Validity is judged by real time. Revocation is not checked.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from ipaddress import ip_address
from typing import Final, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512
from cryptography.x509.oid import NameOID

from pixconnect.domain.outside_location import LocationUnreachable
from pixconnect.domain.sandbox_control import READ_AUTHORITY, SandboxControl, SandboxUnavailable

Trusted = Callable[[], Awaitable[Sequence[x509.Certificate]]]
"""Returns the trusted authorities; raises ``LocationUnreachable`` if they must be fetched and nobody answers."""

CHAIN_LENGTH_MAX: Final = 8
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
        # Asked each time: a sandbox that was started anew has another authority.
        try:
            pem = await control.call(READ_AUTHORITY, None)
        except SandboxUnavailable as error:
            raise LocationUnreachable(f"the sandbox did not name its authority: {error}") from error
        return x509.load_pem_x509_certificates(pem.encode())

    return read


def verify_chain(
    chain: Sequence[bytes], host: str, trusted: Sequence[x509.Certificate], now: datetime
) -> x509.Certificate:
    """Verify a chain and return its leaf.

    Args:
        chain: In DER; the leaf first, the others in any order.
        host: A name in ASCII and lower case, or an IP address.

    Raises:
        ChainRefused: The chain is not valid, does not name the host, or ends at nobody we trust.
    """
    if not 0 < len(chain) <= CHAIN_LENGTH_MAX:
        raise ChainRefused(f"must come in a chain of 1 to {CHAIN_LENGTH_MAX}")
    try:
        leaf, *others = [x509.load_der_x509_certificate(der) for der in chain]
        _check_leaf(leaf, host, now)
        _climb(leaf, others, trusted, now)
    except _UNREADABLE as error:
        raise ChainRefused("or its chain cannot be read") from error
    return leaf


def _check_leaf(leaf: x509.Certificate, host: str, now: datetime) -> None:
    if now < leaf.not_valid_before_utc:
        raise ChainRefused("is not valid yet")
    if now > leaf.not_valid_after_utc:
        raise ChainRefused("has expired")
    # A critical extension may restrict what the certificate is good for: one that we do not know is never ignored.
    if not _is_understood(leaf):
        raise ChainRefused("has a critical extension that is not understood")
    usage = _find(leaf, x509.KeyUsage)
    if usage is not None and not usage.digital_signature:
        raise ChainRefused("is not meant for signatures")
    if not _names_host(leaf, host):
        raise ChainRefused("does not name the location's host")


def _climb(
    leaf: x509.Certificate, others: Sequence[x509.Certificate], trusted: Sequence[x509.Certificate], now: datetime
) -> None:
    below, left = leaf, list(others)
    # Each certificate is used once, so that two that have signed each other end the search.
    for depth in range(len(others) + 1):
        if any(_has_issued(authority, below, depth, now) for authority in trusted):
            return
        above = next((other for other in left if _has_issued(other, below, depth, now)), None)
        if above is None:
            break
        left.remove(above)
        below = above
    raise ChainRefused("does not lead to an authority that is trusted")


def _has_issued(issuer: x509.Certificate, subject: x509.Certificate, depth: int, now: datetime) -> bool:
    """Whether one certificate has signed another and may do so with ``depth`` authorities between it and the leaf."""
    if issuer.subject != subject.issuer or not issuer.not_valid_before_utc <= now <= issuer.not_valid_after_utc:
        return False
    limits, usage = _find(issuer, x509.BasicConstraints), _find(issuer, x509.KeyUsage)
    if limits is None or not limits.ca or (limits.path_length is not None and limits.path_length < depth):
        return False
    if (usage is not None and not usage.key_cert_sign) or not _is_understood(issuer):
        return False
    # SHA-1 can be forged.
    if not isinstance(subject.signature_hash_algorithm, SHA256 | SHA384 | SHA512):
        return False
    try:
        subject.verify_directly_issued_by(issuer)
    except (InvalidSignature, TypeError, ValueError):
        return False
    return True


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
    # A star stands for exactly one label at the left, and never for a whole top-level domain.
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
