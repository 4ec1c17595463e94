"""Reads when the certificates of an account end; that they can be used was tried before."""

from __future__ import annotations

from collections.abc import Sequence

from cryptography import x509

from pixconnect.domain.institutions.account import Credential, InstitutionAccount
from pixconnect.domain.institutions.certificate import AccountCertificate, CertificatePart


def read_account_certificates(credential: Credential, account: InstitutionAccount) -> Sequence[AccountCertificate]:
    """The client's own and the institution's authorities, where there are any; of several in one file the first that ends."""
    pems: list[tuple[CertificatePart, str]] = [
        ("receiving", credential.certificate),
        ("authority", account.authorities),
    ]
    return [
        AccountCertificate(part=part, ends_at=min(one.not_valid_after_utc for one in found))
        for part, pem in pems
        if pem and (found := x509.load_pem_x509_certificates(pem.encode()))
    ]
