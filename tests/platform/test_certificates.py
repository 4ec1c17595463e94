"""Certificates, checked as by a payer's institution."""

from datetime import timedelta
from ipaddress import IPv4Address, IPv6Address

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from pixconnect.platform import certificates, jose
from support.service import STARTED_AT

AUTHORITY_KEY = jose.make_key()
AUTHORITY = certificates.make_authority(AUTHORITY_KEY, "Pix Connect CA", STARTED_AT)


def issue(host: str) -> tuple[x509.Certificate, x509.Certificate]:
    leaf = certificates.issue_leaf(jose.make_key(), host, AUTHORITY_KEY, AUTHORITY.der, STARTED_AT)
    return x509.load_der_x509_certificate(leaf.der), x509.load_der_x509_certificate(AUTHORITY.der)


@pytest.mark.parametrize(
    ("host", "subject"),
    [
        ("pix.example.com", x509.DNSName("pix.example.com")),
        ("127.0.0.1", x509.IPAddress(IPv4Address("127.0.0.1"))),
        ("::1", x509.IPAddress(IPv6Address("::1"))),
        ("localhost", x509.DNSName("localhost")),
    ],
)
def test_a_leaf_is_valid_for_its_host_up_to_the_authority(host: str, subject: x509.GeneralName) -> None:
    leaf, authority = issue(host)
    verifier = PolicyBuilder().store(Store([authority])).time(STARTED_AT + timedelta(days=1)).build_client_verifier()
    assert verifier.verify(leaf, []).subjects == [subject]


def test_an_authority_may_sign_leaves_and_a_leaf_nothing() -> None:
    leaf, authority = issue("pix.example")
    limits = [c.extensions.get_extension_for_class(x509.BasicConstraints).value for c in (leaf, authority)]
    assert [limit.ca for limit in limits] == [False, True]
    assert limits[1].path_length == 0


def test_a_certificate_is_valid_for_clocks_a_little_behind_and_ends() -> None:
    leaf, _ = issue("pix.example")
    assert leaf.not_valid_before_utc < STARTED_AT < leaf.not_valid_after_utc
    assert leaf.not_valid_after_utc == STARTED_AT + certificates.LEAF_LIFETIME


def test_a_host_as_long_as_any_can_be_certified() -> None:
    leaf, _ = issue("a" * 63 + "." + "b" * 63 + ".example")
    assert leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
