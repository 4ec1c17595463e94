"""The sandbox's own authority of TLS, and its certificates: in ``tls`` in the home, readable by us alone.

The authority is made once, so that test programs which trust it go on trusting it. The server's certificate is made again at
each start. Processes that start together take turns.
"""

import fcntl
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from joserfc.jwk import ECKey
from msgspec import Struct

from pixconnect.platform import certificates, jose
from pixconnect.platform.certificates import Certificate
from pixconnect.platform.local.home import write_private

_AUTHORITY_NAME = "Pix Connect Sandbox TLS CA"


class ClientFiles(Struct, frozen=True, kw_only=True):
    """Certificates for a test program, in each of the forms that libraries want."""

    certificate: Certificate
    certificate_file: Path
    key_file: Path
    both_file: Path
    """Certificate and key in one PEM file."""
    pkcs12_file: Path
    """Both as PKCS #12, without a password."""


def authority_file(home: Path) -> Path:
    return home / "tls" / "authority.pem"


def write_server(home: Path, hosts: Sequence[str], now: datetime) -> Path:
    """Certify the server under these names and addresses; the file has its key and its certificate."""
    with _locked(home) as folder:
        authority_key, authority = _authority(folder, now)
        key = jose.make_key()
        certificate = certificates.issue_server(key, hosts, authority_key, authority, now)
        path = folder / "server.pem"
        # One file, so that a process that starts meanwhile never finds the key of another certificate.
        write_private(path, jose.write_private_pem(key) + certificates.write_pem(certificate.der))
    return path


def write_client(home: Path, folder: Path, client_id: str, now: datetime) -> ClientFiles:
    """Make a key and a certificate for a client's test program."""
    with _locked(home) as own_folder:
        authority_key, authority = _authority(own_folder, now)
    key = jose.make_key()
    certificate = certificates.issue_client(key, client_id, authority_key, authority, now)
    files = ClientFiles(
        certificate=certificate,
        certificate_file=folder / f"{client_id}.certificate.pem",
        key_file=folder / f"{client_id}.key.pem",
        both_file=folder / f"{client_id}.pem",
        pkcs12_file=folder / f"{client_id}.p12",
    )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key_pem, certificate_pem = jose.write_private_pem(key), certificates.write_pem(certificate.der)
    write_private(files.certificate_file, certificate_pem)
    write_private(files.key_file, key_pem)
    write_private(files.both_file, key_pem + certificate_pem)
    write_private(files.pkcs12_file, certificates.write_pkcs12(client_id, key, certificate.der))
    return files


def _authority(folder: Path, now: datetime) -> tuple[ECKey, bytes]:
    certificate_path, key_path = folder / "authority.pem", folder / "authority.key"
    if not certificate_path.exists():
        key = jose.make_key()
        certificate = certificates.make_authority(key, _AUTHORITY_NAME, now)
        # The certificate last: if it exists, both do.
        write_private(key_path, jose.write_private_key(key))
        write_private(certificate_path, certificates.write_pem(certificate.der))
    return jose.read_private_key(key_path.read_bytes()), certificates.read_pem(certificate_path.read_bytes()).der


@contextmanager
def _locked(home: Path) -> Generator[Path]:
    folder = home / "tls"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
