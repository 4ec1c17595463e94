"""Makes X.509 certificates: an authority of our own and the leaves that it signs, all of them EC P-256.

A payer's institution checks the payload of a dynamic QR code with a certificate that names the host it came from. The sandbox
has its own authority for that, and another one for TLS: its server's certificate and those of test programs.

The sandbox's TLS files are in ``tls`` in the home, readable by us alone. The authority is made once, so that test programs
which trust it go on trusting it. The server's certificate is made again at each start. Processes that start together take
turns.
"""

import fcntl
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import cast

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from joserfc.jwk import ECKey
from msgspec import Struct

from pixconnect.platform import jose
from pixconnect.platform.environment import read_named_file
from pixconnect.platform.local.home import write_private

AUTHORITY_LIFETIME = timedelta(days=3650)
LEAF_LIFETIME = timedelta(days=396)
# Clocks differ: a new certificate must be valid by a clock that is a little behind.
_BACKDATED = timedelta(hours=1)
_COMMON_NAME_MAX = 64


class Certificate(Struct, frozen=True, kw_only=True):
    der: bytes
    expires_at: datetime


def make_authority(key: ECKey, name: str, now: datetime) -> Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:_COMMON_NAME_MAX])])
    # X.509 counts whole seconds, and stored values must equal the certificate's.
    expires_at = (now + AUTHORITY_LIFETIME).replace(microsecond=0)
    builder = (
        _builder(subject, subject, key, now, expires_at)
        # It signs leaves, and no authority below it.
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    return _signed(builder, key, expires_at)


def issue_leaf(key: ECKey, host: str, authority_key: ECKey, authority: bytes, now: datetime) -> Certificate:
    """Certify the public part of ``key`` for ``host``, a name or an IP address."""
    names = x509.SubjectAlternativeName([_general_name(host)])
    return _issue(key, host, authority_key, authority, now, [names])


def issue_server(key: ECKey, hosts: Sequence[str], authority_key: ECKey, authority: bytes, now: datetime) -> Certificate:
    """Certify a server of TLS, which is found under these names and addresses."""
    extensions = (
        x509.SubjectAlternativeName([_general_name(host) for host in hosts]),
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
    )
    return _issue(key, hosts[0], authority_key, authority, now, extensions)


def issue_client(key: ECKey, name: str, authority_key: ECKey, authority: bytes, now: datetime) -> Certificate:
    """Certify a client of TLS; the name is for people who look at the certificate."""
    extensions = [x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])]
    return _issue(key, name, authority_key, authority, now, extensions)


def write_pem(der: bytes) -> bytes:
    return x509.load_der_x509_certificate(der).public_bytes(Encoding.PEM)


def read_pem(pem: bytes) -> Certificate:
    """Read the first certificate of a PEM file; ``ValueError`` if there is none."""
    found = x509.load_pem_x509_certificate(pem)
    return Certificate(der=found.public_bytes(Encoding.DER), expires_at=found.not_valid_after_utc)


def read_ends(files: Mapping[str, str]) -> dict[str, datetime]:
    """Return when the certificates in these files expire, by file name; unreadable ones are reported elsewhere."""
    ends = dict[str, datetime]()
    for name, file in files.items():
        with suppress(OSError, ValueError):
            ends[name] = read_pem(read_named_file(Path(file))).expires_at
    return ends


def _issue(
    key: ECKey, name: str, authority_key: ECKey, authority: bytes, now: datetime, extensions: Iterable[x509.ExtensionType]
) -> Certificate:
    issuer = x509.load_der_x509_certificate(authority)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:_COMMON_NAME_MAX])])
    expires_at = (now + LEAF_LIFETIME).replace(microsecond=0)
    issuer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key)
    builder = (
        _builder(subject, issuer.subject, key, now, expires_at)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return _signed(builder.add_extension(issuer_id, critical=False), authority_key, expires_at)


def _general_name(host: str) -> x509.GeneralName:
    try:
        # A URL has an IPv6 address in brackets.
        return x509.IPAddress(ip_address(host.strip("[]")))
    except ValueError:
        return x509.DNSName(host.encode("idna").decode())


def _builder(subject: x509.Name, issuer: x509.Name, key: ECKey, now: datetime, expires_at: datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before((now - _BACKDATED).replace(microsecond=0))
        .not_valid_after(expires_at)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _signed(builder: x509.CertificateBuilder, key: ECKey, expires_at: datetime) -> Certificate:
    certificate = builder.sign(cast(EllipticCurvePrivateKey, key.private_key), SHA256())
    return Certificate(der=certificate.public_bytes(Encoding.DER), expires_at=expires_at)


_AUTHORITY_NAME = "Pix Connect Sandbox TLS CA"


class ClientFiles(Struct, frozen=True, kw_only=True):
    """Certificates for a test program, in each of the forms that libraries want."""

    certificate: Certificate
    certificate_file: Path
    key_file: Path
    both_file: Path  # certificate and key in one PEM file
    pkcs12_file: Path  # both as PKCS #12, without a password, as banks provide them


def authority_file(home: Path) -> Path:
    return home / "tls" / "authority.pem"


def write_server(home: Path, hosts: Sequence[str], now: datetime) -> Path:
    """Certify the server under these names and addresses; the file has its key and its certificate."""
    with _locked(home) as folder:
        authority_key, authority = _authority(folder, now)
        key = jose.make_key()
        certificate = issue_server(key, hosts, authority_key, authority, now)
        path = folder / "server.pem"
        # One file, so that a process that starts meanwhile never finds the key of another certificate.
        write_private(path, jose.write_private_pem(key) + write_pem(certificate.der))
    return path


def write_client(home: Path, folder: Path, client_id: str, now: datetime) -> ClientFiles:
    """Make a key and a certificate for a client's test program."""
    with _locked(home) as own_folder:
        authority_key, authority = _authority(own_folder, now)
    key = jose.make_key()
    certificate = issue_client(key, client_id, authority_key, authority, now)
    files = ClientFiles(
        certificate=certificate,
        certificate_file=folder / f"{client_id}.certificate.pem",
        key_file=folder / f"{client_id}.key.pem",
        both_file=folder / f"{client_id}.pem",
        pkcs12_file=folder / f"{client_id}.p12",
    )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key_pem, certificate_pem = jose.write_private_pem(key), write_pem(certificate.der)
    write_private(files.certificate_file, certificate_pem)
    write_private(files.key_file, key_pem)
    write_private(files.both_file, key_pem + certificate_pem)
    private, public = cast(EllipticCurvePrivateKey, key.private_key), x509.load_der_x509_certificate(certificate.der)
    packed = pkcs12.serialize_key_and_certificates(client_id.encode(), private, public, None, NoEncryption())
    write_private(files.pkcs12_file, packed)
    return files


def _authority(folder: Path, now: datetime) -> tuple[ECKey, bytes]:
    certificate_path, key_path = folder / "authority.pem", folder / "authority.key"
    if not certificate_path.exists():
        key = jose.make_key()
        certificate = make_authority(key, _AUTHORITY_NAME, now)
        # The certificate last: if it exists, both do.
        write_private(key_path, jose.write_private_key(key))
        write_private(certificate_path, write_pem(certificate.der))
    return jose.read_private_key(key_path.read_bytes()), read_pem(certificate_path.read_bytes()).der


@contextmanager
def _locked(home: Path) -> Generator[Path]:
    folder = home / "tls"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
