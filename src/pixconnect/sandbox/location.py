"""Locations: where outside merchants serve the signed payloads of their dynamic codes.

The certificate and its authority are made once and stored. They keep real time, whatever the sandbox clock says.
"""

from __future__ import annotations

import ssl
from datetime import datetime, timedelta
from typing import Final

import asyncpg
import msgspec

from pixconnect.domain.frame import money
from pixconnect.domain.frame.clock import format_instant
from pixconnect.foundation import certificates, jose
from pixconnect.sandbox import registry
from pixconnect.sandbox.registry import CertificateRow, MerchantCode

HOST: Final = "127.0.0.1"
AUTHORITY_NAME: Final = "Pix Connect Sandbox Outside CA"
PAYABLE_FOR: Final = timedelta(days=1)
_RENEWED_BEFORE: Final = timedelta(days=30)


class MerchantSigner:
    """Signs payloads with the merchants' key; locations are at ``address``, a ``host:port``."""

    def __init__(self, row: CertificateRow, address: str) -> None:
        key = jose.read_private_key(row.leaf_key)
        self._key = jose.PrivateKey(key, jose.thumbprint(key))
        self._jku = f"http://{address}/jwks"
        self._chain = (row.leaf, row.authority)
        members = jose.certificate_members(self._chain)
        jwk = jose.published_jwk(self._key.kid, jose.write_public_jwk(key)) | members
        self.jwk_set = msgspec.json.encode({"keys": [jwk]})
        self.authority_pem = ssl.DER_cert_to_PEM_cert(row.authority)

    def sign(self, code: MerchantCode, now: datetime) -> str:
        """Return the payload behind a code as a compact JWS."""
        header = {"jku": self._jku, "typ": "JWS", "x5t#S256": jose.certificate_thumbprint(self._chain[0])}
        return self._key.sign(msgspec.json.encode(_payload(code, now)), header)


async def open_signer(pool: asyncpg.Pool, address: str, real_now: datetime) -> MerchantSigner:
    """Read the merchants' certificate, or make another when it is about to expire."""
    row = await registry.read_certificate(pool)
    if row is None or row.expires_at - real_now < _RENEWED_BEFORE:
        row = _make_certificate(real_now)
        await registry.write_certificate(pool, row)
    return MerchantSigner(row, address)


def _make_certificate(real_now: datetime) -> CertificateRow:
    authority_key, leaf_key = jose.make_key(), jose.make_key()
    authority = certificates.make_authority(authority_key, AUTHORITY_NAME, real_now)
    leaf = certificates.issue_leaf(leaf_key, HOST, authority_key, authority.der, real_now)
    return CertificateRow(
        authority=authority.der,
        authority_key=jose.write_private_key(authority_key),
        leaf=leaf.der,
        leaf_key=jose.write_private_key(leaf_key),
        expires_at=leaf.expires_at,
    )


def _payload(code: MerchantCode, now: datetime) -> dict[str, object]:
    """The official charge payload (``CobPayload`` of the Pix API)."""
    return {
        "calendario": {
            "criacao": format_instant(code.created_at),
            "apresentacao": format_instant(now),
            "expiracao": int(PAYABLE_FOR.total_seconds()),
        },
        "valor": {"original": money.format_reais(code.amount_cents), "modalidadeAlteracao": 0},
        "chave": code.key,
        "txid": code.txid,
        "revisao": 0,
        "status": "CONCLUIDA" if code.is_paid else "ATIVA",
    }
