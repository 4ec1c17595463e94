"""Opens an account at its institution: chooses the adapter by kind and profile, and configures it."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from typing import Final

from cryptography import x509

from pixconnect.features.institutions.adapters.connection import (
    CallBounds,
    InstitutionConnection,
    make_account_tls,
    parse_institution_host,
)
from pixconnect.features.institutions.adapters.efi import EfiInstitution
from pixconnect.features.institutions.adapters.inter import InterInstitution
from pixconnect.features.institutions.adapters.pace import CallPaces
from pixconnect.features.institutions.adapters.sicoob import SicoobInstitution
from pixconnect.features.institutions.adapters.standard import ConnectedInstitution, StandardInstitution
from pixconnect.features.institutions.adapters.token import CallParts
from pixconnect.features.institutions.adapters.woovi import WooviInstitution
from pixconnect.features.institutions.profiles.profile import NAMES, InstitutionProfile, read_profile
from pixconnect.features.institutions.rules.account import (
    AccountCertificate,
    CertificatePart,
    Credential,
    InstitutionAccount,
    find_address_fault,
)
from pixconnect.features.institutions.rules.institution import Institution
from pixconnect.platform.adapters.outgoing_http import ClientCertificateError
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import Clock
from pixconnect.platform.base.entropy import Entropy


def read_account_certificates(credential: Credential, account: InstitutionAccount) -> Sequence[AccountCertificate]:
    """Read the certificates of the client and of the institution's authorities; of several in one file the first that ends."""
    pems: list[tuple[CertificatePart, str]] = [
        ("receiving", credential.certificate),
        ("authority", account.authorities),
    ]
    return [
        AccountCertificate(part=part, ends_at=min(one.not_valid_after_utc for one in found))
        for part, pem in pems
        if pem and (found := x509.load_pem_x509_certificates(pem.encode()))
    ]


_BOUNDS: Final = CallBounds()
_KINDS: Final = dict[str, type[ConnectedInstitution]](
    efi=EfiInstitution,
    inter=InterInstitution,
    sicoob=SicoobInstitution,
    woovi=WooviInstitution,
    standard=StandardInstitution,
)


class InvalidInstitutionAccount(errors.BadRequest):
    """An account cannot be opened as described; the text names the member of its file, and contains no secrets."""


def open_institution(
    account: InstitutionAccount,
    credential: Credential,
    clock: Clock,
    entropy: Entropy,
    bounds: CallBounds = _BOUNDS,
    connect: Callable[[ssl.SSLContext, CallBounds], InstitutionConnection] = InstitutionConnection,
    note: Callable[[str], None] = lambda _: None,
) -> Institution:
    """Open the account's port, in one event loop; nothing is sent yet.

    Args:
        account: The account.
        credential: Its credential.
        clock: For its tokens and paces.
        entropy: For the names that requests need.
        bounds: Of each call.
        connect: Another kind of connection, such as a recording one.
        note: Receives each call's outcome, in one word.

    Raises:
        InvalidInstitutionAccount: An address is not permitted for its credentials, or the certificate cannot be used.
    """
    profile = find_profile(account)
    fault = find_address_fault(account, profile.account)
    if fault is not None:
        raise InvalidInstitutionAccount(fault)
    if profile.client_certificate == "required" and not credential.certificate:
        raise InvalidInstitutionAccount(
            "certificate_file: this institution takes no connection without a client certificate"
        )
    try:
        tls = make_account_tls(credential.certificate, credential.private_key, account.authorities)
    except ClientCertificateError as error:
        raise InvalidInstitutionAccount(f"certificate_file, private_key_file, ca_file: {error}") from None
    is_homologation = account.environment == "homologation"
    parts = CallParts(
        connection=connect(tls, bounds),
        host=parse_institution_host(account.base_url),
        account=account,
        credential=credential,
        traits=profile.account,
        token=profile.token,
        paces=CallPaces(profile.account, clock, entropy, is_homologation=is_homologation),
        clock=clock,
        entropy=entropy,
        bounds=bounds,
        certificates=read_account_certificates(credential, account),
        note=note,
    )
    return _KINDS[account.kind](parts, profile)


def find_profile(account: InstitutionAccount) -> InstitutionProfile:
    """Find its profile by kind; the kind ``standard`` names it separately."""
    name = account.profile_name
    if name not in NAMES:
        raise InvalidInstitutionAccount(f"profile: there is no {name[:64]!r}; there are {', '.join(NAMES)}")
    return read_profile(name)
