"""A test's certificate authority, and TLS contexts that trust it."""

import ssl
from datetime import timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from support.institution import certify


class Authority:
    """Its certificate is ``ca.pem`` in a folder, beside those that it issues with their keys."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        # Strict clients require the key's identifier here and in what it issues.
        own_id = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        self._certificate = certify(self._key, "Test CA", ca=True, usage="key_cert_sign", extra=(own_id, False))
        (folder / "ca.pem").write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def client_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self._certificate.public_bytes(Encoding.PEM).decode())

    def server_context(self, name: str, days_ago: int = 0, days: int = 1) -> ssl.SSLContext:
        """A certificate for one name, valid for a day or more, beginning some days ago."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = certify(
            *(key, name, (self._key, self._certificate)),
            hosts=(name,),
            begins=-timedelta(days=days_ago, hours=1),
            ends=timedelta(days=days - days_ago),
            extra=(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False),
        )
        path = self._folder / f"{name}-{days_ago}.pem"
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path.write_bytes(pem + certificate.public_bytes(Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context
