"""An account at an institution: its operator's description, and the consequences.

An installation has one environment. Several holders may share one account if the law permits: the owner's own, by the CPF or by
the first eight characters of the CNPJ. Institutions must close accounts whose owner renders payment services to others without
permission (Res. BCB 518 of 2025; CMN 5.261).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from ipaddress import ip_address
from typing import Final, Literal
from urllib.parse import urlsplit

from msgspec import Struct, structs

from pixconnect.features.institutions.profiles.account_traits import AccountTraits
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY
from pixconnect.kernel.rules.rail import Abilities
from pixconnect.platform.base.clock import describe_end

Kind = Literal["efi", "inter", "woovi", "sicoob", "standard"]
Environment = Literal["production", "homologation", "counterpart"]
"""Of an installation and all its accounts: the institutions' own hosts, those of their tests, or anything else."""
AccountState = Literal["active", "paused", "closed"]
Option = str | bool | int
CertificatePart = Literal["receiving", "sending", "authority"]

ABILITIES: Final = Abilities(
    refuses_credits=False, resolves_keys=False, keeps_our_id=False, contests="none", defence_length_max=0
)
"""Abilities of every account's rail: a settlement at an institution is final, with any answer of us."""
_ANSWERS_TAKEN: Final = dict[str, int](efi=1000)
"""The maximum length of an answer to a contest, at institutions that report contests."""

UNNAMED_ISPB: Final = UNKNOWN_PARTY.ispb
"""In ids of accounts whose owner is no Pix participant; no participant has this number."""
_CNPJ_LENGTH: Final = 14
_CNPJ_ROOT: Final = 8
_LENGTH_MAX: Final = 255


class Credential(Struct, frozen=True, kw_only=True):
    """Our credentials at the institution; certificate and key are PEM, and empty if it requires none.

    Members in a secret store are named by their files instead, and read when the account is opened.
    """

    client_id: str = ""
    client_secret: str = ""
    certificate: str = ""
    private_key: str = ""
    client_secret_file: str = ""
    certificate_file: str = ""
    private_key_file: str = ""

    @property
    def is_outside(self) -> bool:
        """Whether any of it is still to be read from files."""
        return bool(self.client_secret_file or self.certificate_file or self.private_key_file)

    def __repr__(self) -> str:
        # No secret may reach a log or a traceback.
        return f"Credential(client_id={self.client_id!r})"


class AccountTerms(Struct, frozen=True, kw_only=True):
    """An account as its operator's file describes it."""

    kind: Kind
    profile: str  # the institution's traits (``features/institutions/profiles``)
    environment: Environment
    tax_id: str  # CPF or CNPJ of its owner
    base_url: str  # scheme, host and port
    token_url: str  # empty is the profile's path below ``base_url``
    authorities: str  # PEM of the authority of the institution's certificate; empty trusts the system's
    account: str  # the institution's number for it, if requests need it
    keys: Sequence[str]
    poll_s: int
    options: Mapping[str, Option]


class InstitutionAccount(AccountTerms, frozen=True, kw_only=True):
    """One account at an institution; ``id`` is part of all its facts."""

    id: int
    name: str
    state: AccountState
    house_id: int  # the holder of the account's unassigned money
    opened_at: datetime  # start of its books
    opening_cents: int
    revision: int
    created_at: datetime
    paused_because: str | None = None
    """The loss of the database (``database_loss``) that paused it, unless an operator did too."""
    lost_at: datetime | None = None
    """When the loss was detected.

    The account is only read, and sends nothing, until an operator confirms that the books are complete.
    """

    @property
    def profile_name(self) -> str:
        return self.profile if self.kind == "standard" else self.kind

    @property
    def is_read(self) -> bool:
        """Whether incoming money is recorded: a pause only stops outgoing money."""
        return self.state != "closed"

    @property
    def may_receive(self) -> bool:
        """Whether charges are opened and orders queried: not while the database may have lost some."""
        return self.is_read and self.lost_at is None

    @property
    def sends_at_once(self) -> int:
        """Maximum of concurrent transfers, by ``in_flight`` under ``[options]``."""
        in_flight = self.options.get("in_flight", 1)
        return in_flight if type(in_flight) is int else 1


class AccountCertificate(Struct, frozen=True, kw_only=True):
    part: CertificatePart
    """Of the receiving or the sending credential, or of the authority of the institution's certificate."""
    ends_at: datetime


class EndingCertificate(Struct, frozen=True, kw_only=True):
    institution: str  # the account's name
    used: AccountCertificate
    text: str  # how soon it expires


def account_seal(account_id: int, part: Literal["receiving", "sending"] = "receiving") -> str:
    return f"institution_account:{account_id}:{part}"


def find_shared_member(
    account: InstitutionAccount, client: Credential, other: InstitutionAccount, others: Credential
) -> str | None:
    """Find the member that shows two accounts here to be one at the institution, whose money would count twice.

    Each comes with its client for receiving; neither is closed.
    """
    if shared := set(account.keys) & set(other.keys):
        return f"keys: {min(shared)}"
    if not are_at_one_institution(account, other):
        return None
    number, others_number = _plain(account.account), _plain(other.account)
    numbers = {number, others_number} - {""}
    if len(numbers) == 1 and number == others_number and account.tax_id == other.tax_id:
        return f"account: {account.account}"
    # One client may have several accounts, which requests name.
    if len(numbers) < 2 and _login(client) == _login(others) != ("", ""):
        return f"client_id: {client.client_id}" if client.client_id else "client_secret_file: its contents"
    return None


def are_at_one_institution(account: InstitutionAccount, other: InstitutionAccount) -> bool:
    """Whether two accounts are at one institution, and in one environment, however its address is written."""
    return _institution_of(account) == _institution_of(other)


def _institution_of(account: InstitutionAccount) -> tuple[str, str, str]:
    # Real hosts are a closed list: all those of a profile in one environment lead to the same accounts.
    if account.environment != "counterpart":
        return account.profile, account.environment, ""
    # However written, equal ones lead to the same host.
    parts = urlsplit(account.base_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    where = f"{parts.scheme}://{(parts.hostname or '').rstrip('.')}:{port}{parts.path.rstrip('/')}"
    return account.profile, account.environment, where


def _plain(number: str) -> str:
    return number.lstrip("0").upper()


def _login(client: Credential) -> tuple[str, str]:
    # Some institutions identify a client by its secret alone.
    return (client.client_id, "") if client.client_id else (client.client_secret, client.client_secret_file)


def may_lie_on(owner_tax_id: str, holder_tax_id: str) -> bool:
    """Whether a holder's money may be on the account of this owner."""
    if len(owner_tax_id) == len(holder_tax_id) == _CNPJ_LENGTH:
        return owner_tax_id[:_CNPJ_ROOT] == holder_tax_id[:_CNPJ_ROOT]
    return owner_tax_id == holder_tax_id


def abilities_of(account: InstitutionAccount) -> Abilities:
    """Return the abilities of an account's rail: contests are reported where supported, but not in test environments."""
    length_max = 0 if account.environment == "homologation" else _ANSWERS_TAKEN.get(account.kind, 0)
    return structs.replace(ABILITIES, contests="theirs" if length_max else "none", defence_length_max=length_max)


def find_address_fault(account: AccountTerms, traits: AccountTraits) -> str | None:
    """Find the fault in the account's addresses, naming the member of its file.

    Real hosts are a closed list, and no host of the list is a counterpart, so test money never meets them.
    """
    named = [("base_url", account.base_url)]
    if account.token_url:
        named.append(("token_url", account.token_url))
    for member, url in named:
        if (fault := _find_fault(account, traits, url)) is not None:
            return f"{member}: {fault}"
    if account.environment != "counterpart" and urlsplit(account.base_url).path not in ("", "/"):
        return "base_url: must be the bare host: the paths are those of the kind"
    return None


def token_address(account: InstitutionAccount, traits: AccountTraits, path: str) -> str:
    if account.token_url:
        return account.token_url
    host = None if account.environment == "counterpart" else traits.token_hosts.get(account.environment)
    return (f"https://{host}" if host else account.base_url.rstrip("/")) + path


def _find_fault(account: AccountTerms, traits: AccountTraits, url: str) -> str | None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "cannot be read as an address"
    host = (parts.hostname or "").lower()
    if not host or not url.isascii() or not url.isprintable() or " " in url or parts.username is not None:
        return "must be an https address with a host, and without user info"
    if len(url) > _LENGTH_MAX:
        return f"must have up to {_LENGTH_MAX} characters"
    if parts.query or parts.fragment:
        return "must have neither a query nor a fragment"
    if account.environment == "counterpart":
        if any(host in hosts for hosts in traits.hosts.values()) or host in traits.token_hosts.values():
            return f"{host} is the institution's own, and no counterpart"
        is_plain = parts.scheme == "http" and is_loopback(host)
        return None if parts.scheme == "https" or is_plain else "must be https, or http on loopback"
    allowed = [*traits.hosts[account.environment], *filter(None, [traits.token_hosts.get(account.environment)])]
    if host not in allowed:
        return f"{host} is none of the {account.environment} hosts of {account.profile}: {', '.join(allowed)}"
    return None if parts.scheme == "https" and port in (None, 443) else "must be https on port 443"


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def find_ending(listed: Sequence[tuple[str, AccountCertificate]], now: datetime) -> list[EndingCertificate]:
    """Find certificates that expire soon, soonest first."""
    ending = [
        EndingCertificate(institution=name, used=used, text=text)
        for name, used in listed
        if (text := describe_end(used.ends_at, now)) is not None
    ]
    return sorted(ending, key=lambda one: one.used.ends_at)
