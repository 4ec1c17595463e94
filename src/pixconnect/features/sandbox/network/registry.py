"""The SQL besides money (directory entries, merchants' codes, fault rules, a certificate), and merchants' locations.

Outside merchants serve the signed payloads of their dynamic codes at locations. The certificate and its authority are made once
and stored. They use real time, regardless of the sandbox clock.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import asyncpg
import msgspec
from msgspec import structs

from pixconnect.features.sandbox.network import directory
from pixconnect.features.sandbox.rules import FaultRule
from pixconnect.kernel.rules import money
from pixconnect.kernel.rules.rail import DirectoryEntry
from pixconnect.platform import certificates, jose
from pixconnect.platform.base.clock import format_instant

HOST: Final = "127.0.0.1"
AUTHORITY_NAME: Final = "Pix Connect Sandbox Outside CA"
PAYABLE_FOR: Final = timedelta(days=1)
_RENEWED_BEFORE: Final = timedelta(days=30)
ENTRIES_LISTED_MAX: Final = 1000
LAST_ENTRY = "select coalesce(max(number), 0) from directory_entry"
LAST_CODE = "select coalesce(max(number), 0) from merchant_code"

FIND_ENTRIES = "select key, key_type, account_number, name, tax_id from directory_entry where key = any($1)"

LIST_ENTRIES = "select key, key_type, account_number, name, tax_id from directory_entry order by number desc limit $1"

INSERT_ENTRY = """
insert into directory_entry (number, key, key_type, account_number, name, tax_id) values ($1, $2, $3, $4, $5, $6)
on conflict (key) do nothing
"""

INSERT_CODE = """
insert into merchant_code (number, txid, token, key, amount_cents, created_at) values ($1, $2, $3, $4, $5, $6)
on conflict (txid) do nothing
returning number
"""

FIND_CODE = "select txid, key, amount_cents, created_at, paid_by is not null from merchant_code where token = $1"

SAVE_TIMES = """
update fault_rule f set times_left = c.times_left
from unnest($1::integer[], $2::integer[]) as c (position, times_left)
where f.position = c.position
"""

READ_CERTIFICATE = "select authority, authority_key, leaf, leaf_key, expires_at from certificate"

WRITE_CERTIFICATE = """
insert into certificate (authority, authority_key, leaf, leaf_key, expires_at) values ($1, $2, $3, $4, $5)
on conflict (is_only) do update set authority = excluded.authority, authority_key = excluded.authority_key,
    leaf = excluded.leaf, leaf_key = excluded.leaf_key, expires_at = excluded.expires_at
"""


class MerchantCode(NamedTuple):
    """A merchant's dynamic code, as its location serves it."""

    txid: str
    key: str
    amount_cents: int
    created_at: datetime
    is_paid: bool


class CertificateRow(NamedTuple):
    """The merchants' certificates and keys, in DER and PKCS #8."""

    authority: bytes
    authority_key: bytes
    leaf: bytes
    leaf_key: bytes
    expires_at: datetime


async def find_entries(pool: asyncpg.Pool, keys: Iterable[str]) -> list[DirectoryEntry]:
    return [directory.entry_of(*row) for row in await pool.fetch(FIND_ENTRIES, list(keys))]


async def list_added(pool: asyncpg.Pool) -> list[DirectoryEntry]:
    return [directory.entry_of(*row) for row in await pool.fetch(LIST_ENTRIES, ENTRIES_LISTED_MAX)]


async def insert_entry(pool: asyncpg.Pool, number: int, entry: DirectoryEntry) -> None:
    party = entry.party
    await pool.execute(INSERT_ENTRY, number, entry.key, entry.key_type, party.account_number, party.name, party.tax_id)


async def insert_code(pool: asyncpg.Pool, number: int, token: str, code: MerchantCode) -> bool:
    row = await pool.fetchval(INSERT_CODE, number, code.txid, token, code.key, code.amount_cents, code.created_at)
    return row is not None


async def find_code(pool: asyncpg.Pool, token: str) -> MerchantCode | None:
    row = await pool.fetchrow(FIND_CODE, token)
    return None if row is None else MerchantCode(*row)


async def read_rules(pool: asyncpg.Pool) -> list[FaultRule]:
    """Return the fault rules, each with its remaining ``times``."""
    rows = await pool.fetch("select rule, times_left from fault_rule order by position")
    return [structs.replace(msgspec.json.decode(row[0], type=FaultRule), times=row[1]) for row in rows]


async def replace_rules(pool: asyncpg.Pool, rules: Sequence[FaultRule]) -> None:
    rows = [(position, msgspec.json.encode(rule).decode(), rule.times) for position, rule in enumerate(rules)]
    async with pool.acquire() as connection, connection.transaction():
        # In one transaction: a mixture of old and new rules would be a set that was never requested.
        await connection.execute("delete from fault_rule")
        await connection.executemany("insert into fault_rule (position, rule, times_left) values ($1, $2, $3)", rows)


async def save_times(pool: asyncpg.Pool, times_left: Mapping[int, int]) -> None:
    await pool.execute(SAVE_TIMES, list(times_left), list(times_left.values()))


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
        header = {"jku": self._jku, "typ": "JWS", "x5t#S256": jose.certificate_thumbprint(self._chain[0])}
        return self._key.sign(msgspec.json.encode(_payload(code, now)), header)


async def open_signer(pool: asyncpg.Pool, address: str, real_now: datetime) -> MerchantSigner:
    """Read the merchants' certificate, or make another when it is about to expire."""
    found = await pool.fetchrow(READ_CERTIFICATE)
    row = None if found is None else CertificateRow(*found)
    if row is None or row.expires_at - real_now < _RENEWED_BEFORE:
        row = _make_certificate(real_now)
        await pool.execute(WRITE_CERTIFICATE, *row)
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
