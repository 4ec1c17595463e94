"""The network's directory (DICT) with the outside accounts behind its entries, and its other SQL besides money.

Some entries are fixed; each determines the outcome of orders to its account. All outside accounts are at one institution. An
account without an entry is paid like any other.

Outside merchants serve the signed payloads of their dynamic codes at locations. The certificate and its authority are made once
and stored. They use real time, regardless of the sandbox clock.
"""

import ssl
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import asyncpg
import msgspec
from msgspec import structs
from stdnum.br import cnpj

from pixconnect.features.sandbox.network import behaviour
from pixconnect.features.sandbox.network.behaviour import Behaviour, Chance
from pixconnect.features.sandbox.rules import FaultRule, NewKey, OutsidePayer
from pixconnect.kernel.rules import money, reject_code, tax_id
from pixconnect.kernel.rules.holder import KeyType, Party
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
    return [entry_of(*row) for row in await pool.fetch(FIND_ENTRIES, list(keys))]


async def list_added(pool: asyncpg.Pool) -> list[DirectoryEntry]:
    return [entry_of(*row) for row in await pool.fetch(LIST_ENTRIES, ENTRIES_LISTED_MAX)]


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


ISPB: Final = "99999004"
BRANCH: Final = "0001"
BANK: Final = "Outside Bank Sandbox"
DOMAIN: Final = "sandbox.pix.example"
SETTLE_KEY: Final = f"settle@{DOMAIN}"

_NAMES: Final = ("Ana", "Bruno", "Carla", "Diego", "Elisa", "Fabio", "Gabriela", "Hugo", "Irene", "Joaquim")
_SURNAMES: Final = ["Almeida", "Barros", "Cardoso", "Duarte", "Esteves", "Freitas", "Gomes", "Lima", "Moraes", "Pereira"]
_FIRST_REJECT_ACCOUNT: Final = 2001
_FIRST_ADDED_ACCOUNT: Final = 500_000
_CHANCE: Final = Chance(0)  # fixed entries are the same for every seed


def outside_party(
    account_number: str, name: str, owner_tax_id: str, key: str | None = None, key_type: KeyType | None = None
) -> Party:
    return Party(
        account_number=account_number,
        account_type="CHECKING",
        bank=BANK,
        branch=BRANCH,
        ispb=ISPB,
        key=key,
        key_type=key_type,
        name=name,
        tax_id=owner_tax_id,
    )


def entry_of(key: str, key_type: KeyType, account_number: str, name: str, owner_tax_id: str) -> DirectoryEntry:
    return DirectoryEntry(key=key, key_type=key_type, party=outside_party(account_number, name, owner_tax_id, key, key_type))


def _list_always_present() -> list[tuple[str, str, str, Behaviour]]:
    # These three come first, in any order of the table of codes: their account numbers stay as they are.
    first_codes = ["AC03", "AC07", "AB03"]
    codes = first_codes + [code for code in reject_code.REASONS if code not in first_codes]
    return [
        ("settle", "1001", "52998224725", behaviour.USUAL),
        ("slow", "1002", _CHANCE.cpf("slow"), behaviour.SLOW),
        ("silent", "1003", _CHANCE.cpf("silent"), behaviour.SILENT),
        ("lost", "1004", _CHANCE.cpf("lost"), behaviour.LOST_INSIDE),
    ] + [
        (f"reject-{code.lower()}", str(number), _CHANCE.cpf(code), Behaviour(code=code))
        for number, code in enumerate(codes, start=_FIRST_REJECT_ACCOUNT)
    ]


_ALWAYS_THERE: Final = _list_always_present()

FIXED_ENTRIES: Final[dict[str, DirectoryEntry]] = {
    f"{name}@{DOMAIN}": entry_of(f"{name}@{DOMAIN}", "EMAIL", account, f"Sandbox {name.capitalize()}", owner)
    for name, account, owner, _ in _ALWAYS_THERE
}

_BEHAVIOURS: Final = {account: how for _, account, _, how in _ALWAYS_THERE}


def behaviour_to(party: Party) -> Behaviour:
    """Return what happens to an order for this account when no fault rule matches."""
    if party.ispb != ISPB or party.branch != BRANCH:
        return behaviour.USUAL
    return _BEHAVIOURS.get(party.account_number, behaviour.USUAL)


def behaviour_of_refund(description: str | None) -> Behaviour:
    """Return what happens to a refund when no fault rule matches: ``reject-ac03`` as its description rejects it."""
    word, _, code = (description or "").partition("-")
    is_rejected = word == "reject" and code.upper() in reject_code.REASONS
    return Behaviour(code=code.upper()) if is_rejected else behaviour.USUAL


def make_entry(new: NewKey, number: int, chance: Chance) -> DirectoryEntry:
    key = new.key or made_up_key(new.key_type, number, chance)
    # A key that is a tax id belongs to the person or company of that id.
    owner_tax_id = new.tax_id or (key if tax_id.is_cpf(key) or tax_id.is_cnpj(key) else chance.cpf("owner", number))
    name = new.name or made_up_name(chance, number)
    return entry_of(key, new.key_type, str(_FIRST_ADDED_ACCOUNT + number), name, owner_tax_id)


def made_up_key(key_type: KeyType, number: int, chance: Chance) -> str:
    match key_type:
        case "CPF":
            return chance.cpf("key", number)
        case "CNPJ":
            first = f"{1 + chance.below(99_999_998, 'key', number):08d}0001"
            return first + cnpj.calc_check_digits(first)
        case "PHONE":
            return f"+55119{chance.below(100_000_000, 'key', number):08d}"
        case "EMAIL":
            return f"person-{number}@{DOMAIN}"
        case "EVP":
            return str(chance.uuid("evp", number))


def make_payer(payer: OutsidePayer, number: int, chance: Chance) -> Party:
    name = payer.name or made_up_name(chance, number)
    return outside_party(str(9_000_000 + number % 1_000_000), name, payer.tax_id or chance.cpf("payer", number))


def made_up_name(chance: Chance, number: int) -> str:
    return f"{_NAMES[chance.below(10, 'name', number)]} {_SURNAMES[chance.below(10, 'surname', number)]}"
