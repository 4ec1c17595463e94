"""The file by which an operator describes an account at an institution, and its rules.

::

    kind = "efi"                                  client_id = "..."
    environment = "homologation"                  client_secret_file = "secret"
    tax_id = "12.345.678/0001-95"                 certificate_file = "certificate.pem"
    base_url = "https://pix-h.api.efipay.com.br"  private_key_file = "key.pem"
    keys = ["pix@loja.example"]

Files are named by paths relative to this one's folder; the reader passes in their contents. With ``secrets = "files"`` their
contents stay in place, and are read when the account is opened; their paths must be absolute then.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, Literal, cast

import msgspec
from msgspec import Struct

from pixconnect.features.institutions.profiles.profile import NAMES, read_profile
from pixconnect.features.institutions.rules.account import (
    AccountTerms,
    Credential,
    Environment,
    Kind,
    Option,
    find_address_fault,
)
from pixconnect.kernel.rules import holder
from pixconnect.kernel.rules.tax_id import check_tax_id, unmask_tax_id
from pixconnect.platform.base import errors

ReadFile = Callable[[str], str]  # the text of a file that the description names; raises ``BadRequest``

_KEYS_MAX: Final = 100
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,39}")
_OPTIONS: Final[Mapping[str, type | range | Sequence[str]]] = dict[str, type | range | Sequence[str]](
    static_fallback=bool,
    give_back=("never", "always"),
    webhook_mtls=bool,
    alarms=bool,
    drain_percent=range(1, 101),
    approve=("auto", "two_steps"),
    psp=("object", "text"),
    app_key=str,
    in_flight=range(1, 65),
    bank=str,
    branch=str,
    account_type=("checking", "savings"),
    agreement=str,
    balance=("ledger", "available", "with_limit", "with_investments"),
)


class _CredentialFiles(Struct, kw_only=True, forbid_unknown_fields=True):
    client_id: str = ""
    client_secret_file: str = ""
    certificate_file: str = ""
    private_key_file: str = ""


class _AccountFile(_CredentialFiles, kw_only=True, forbid_unknown_fields=True):
    kind: Kind
    environment: Environment
    tax_id: str
    base_url: str
    profile: str = ""
    token_url: str = ""
    ca_file: str = ""
    account: str = ""
    keys: list[str] = msgspec.field(default_factory=list[str])
    poll_s: int = 15
    secrets: Literal["sealed", "files"] = "sealed"
    receive: _CredentialFiles = msgspec.field(default_factory=_CredentialFiles)
    send: _CredentialFiles | None = None
    options: dict[str, Option] = msgspec.field(default_factory=dict[str, Option])


class AccountDescription(AccountTerms, frozen=True, kw_only=True):
    """The validated contents of an account's file."""

    receiving: Credential
    sending: Credential | None  # a separate credential for sending; ``None`` if the file has no ``[send]``


def check_name(name: str) -> None:
    """Refuse an invalid account name, which appears in addresses and lists."""
    if _NAME.fullmatch(name) is None:
        raise errors.BadRequest("name: must begin with a small letter, and have up to 40 of a-z, 0-9 and -")


def read_account_file(text: str, read_file: ReadFile) -> AccountDescription:
    """Read a description in TOML.

    Raises:
        BadRequest: It is no TOML, or a member is missing, unknown or wrong; the message names it.
        InvalidTaxId: ``tax_id`` is neither CPF nor CNPJ.
    """
    try:
        file = msgspec.convert(tomllib.loads(text), _AccountFile)
    except tomllib.TOMLDecodeError as error:
        raise errors.BadRequest(f"file: is no TOML: {error}") from None
    except RecursionError:
        raise errors.BadRequest("file: is nested too deeply") from None
    except msgspec.ValidationError as error:
        known = f"; known are {', '.join(_AccountFile.__struct_fields__)}" if "unknown field" in str(error) else ""
        raise errors.BadRequest(f"file: {error}{known}") from None
    tax_id = unmask_tax_id(file.tax_id)
    check_tax_id(tax_id, "tax_id")
    profile = _judge_profile(file)
    if not 1 <= file.poll_s <= 3600:
        raise errors.BadRequest("poll_s: must be from 1 to 3600 seconds")
    _check_options(file.options)
    authorities = _read_named("ca_file", file.ca_file, read_file)
    if not file.account.isascii() or not (file.account == "" or file.account.isalnum()) or len(file.account) > 40:
        raise errors.BadRequest("account: must have up to 40 letters and digits")
    keys = dict.fromkeys(holder.parse_pix_key(key).key for key in file.keys)
    if len(keys) > _KEYS_MAX:
        raise errors.BadRequest(f"keys: may be at most {_KEYS_MAX}")
    description = AccountDescription(
        kind=file.kind,
        profile=profile,
        environment=file.environment,
        tax_id=tax_id,
        base_url=file.base_url.rstrip("/"),
        token_url=file.token_url,
        authorities=authorities,
        account=file.account,
        keys=[*keys],
        poll_s=file.poll_s,
        options=file.options,
        receiving=_take_credential(file, file.receive, read_file),
        sending=None if file.send is None else _take_credential(file, file.send, read_file),
    )
    if (fault := find_address_fault(description, read_profile(profile).account)) is not None:
        raise errors.BadRequest(fault)
    return description


def _read_named(field: str, path: str, read_file: ReadFile) -> str:
    try:
        return read_file(path) if path else ""
    except errors.BadRequest as error:
        raise errors.BadRequest(f"{field}: {error.message}") from None


def _judge_profile(file: _AccountFile) -> str:
    if file.kind != "standard":
        if file.profile not in ("", file.kind):
            raise errors.BadRequest(f"profile: of the kind {file.kind} it is {file.kind}; leave it out")
        return file.kind
    if file.profile not in NAMES:
        raise errors.BadRequest(f"profile: the kind standard needs one of {', '.join(NAMES)}")
    return file.profile


def _check_options(options: Mapping[str, Option]) -> None:
    for name, value in options.items():
        wanted = _OPTIONS.get(name)
        if wanted is None:
            raise errors.BadRequest(f"options: there is no {name}; there are {', '.join(_OPTIONS)}")
        if isinstance(wanted, type):
            if type(value) is not wanted:
                raise errors.BadRequest(f"options.{name}: must be {'a text' if wanted is str else 'true or false'}")
        elif isinstance(wanted, range):
            if type(value) is not int or value not in wanted:
                raise errors.BadRequest(f"options.{name}: must be a whole number from {wanted.start} to {wanted.stop - 1}")
        elif value not in wanted:
            raise errors.BadRequest(f"options.{name}: must be one of {', '.join(wanted)}")


def _take_credential(file: _AccountFile, own: _CredentialFiles, read_file: ReadFile) -> Credential:
    """Read a credential, which inherits missing members from the account; its files are read unless they stay outside."""
    table = "send." if own is file.send else "receive." if own != _CredentialFiles() else ""

    def pick(name: str) -> str:
        return cast("str", getattr(own, name) or getattr(file, name))

    credential = Credential(**{name: pick(name) for name in _CredentialFiles.__struct_fields__})
    if file.secrets == "sealed":
        return read_credential_files(credential, read_file)
    for name in ("client_secret_file", "certificate_file", "private_key_file"):
        path = pick(name)
        if path and not PurePosixPath(path).is_absolute():
            raise errors.BadRequest(f"{table}{name}: stays outside (secrets), so its path must be absolute")
    return credential


def read_credential_files(credential: Credential, read_file: ReadFile) -> Credential:
    """Return the credential with the contents of its files; ``BadRequest`` if one cannot be read, or is missing."""

    def read(name: str) -> str:
        return _read_named(name, cast("str", getattr(credential, name)), read_file)

    certificate, private_key = read("certificate_file"), read("private_key_file")
    # Some institutions provide both in one file.
    if certificate and not private_key and "PRIVATE KEY-----" in certificate:
        private_key = certificate
    if bool(certificate) != bool(private_key):
        raise errors.BadRequest("certificate_file, private_key_file: belong together, and one of the two is missing")
    return Credential(
        client_id=credential.client_id,
        client_secret=read("client_secret_file").strip(),
        certificate=certificate,
        private_key=private_key,
    )
