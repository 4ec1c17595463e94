"""A whole installation with TLS, and clients with certificates."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from msgspec import Struct

from support.account_at_face import run
from support.installation import Installation, running
from support.ports import reserved_port


class TlsInstallation(Struct, frozen=True, kw_only=True):
    service: Installation
    tls_url: str

    @property
    def authority_file(self) -> str:
        return str(self.service.home / "tls" / "authority.pem")

    def create_client(self) -> dict[str, Any]:
        return run(self.service, "client", "create", "--holder-id", self.service.sandbox["holder_id"], "--json")

    def certify(self, client_id: str) -> dict[str, Any]:
        return run(self.service, "client", "certificate", client_id, "--json")

    def connect(self, both_file: str | None = None, *, is_plain: bool = False) -> httpx2.Client:
        """Connect with or without a client certificate."""
        if is_plain:
            return httpx2.Client(base_url=self.service.base_url, timeout=60)
        context = ssl.create_default_context(cafile=self.authority_file)
        if both_file:
            context.load_cert_chain(both_file)
        return httpx2.Client(base_url=self.tls_url, verify=context, timeout=60)


@contextmanager
def running_with_tls(home: Path) -> Iterator[TlsInstallation]:
    with reserved_port() as port, running(home, TLS_PORT=str(port)) as service:
        yield TlsInstallation(service=service, tls_url=f"https://127.0.0.1:{port}")
