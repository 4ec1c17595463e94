"""Signatures, compared with fixed vectors and independent code."""

import base64
import hashlib
import hmac
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from pixconnect.features.webhooks.rules.endpoint import hex_signature, request_headers, standard_signature

BODY = b'{"id":1,"name":"qrcode.approved","payload":{},"create_timestamp":"2026-11-20T12:00:00.000000Z"}'
ENCODED = "whsec_" + base64.b64encode(bytes(range(24))).decode()
PLAIN = "a secret of its owner's own choosing, 100% plain ✓"


def headers_of(secrets: list[str]) -> dict[str, str]:
    """Signed now: a signature is valid for five minutes, and a run of all tests may take longer."""
    return dict(request_headers(secrets, "evt_42", BODY, jws="a..b", attempt_number=3, real_now=datetime.now(UTC)))


def test_the_hex_signature_is_the_documented_one() -> None:
    signature = hex_signature("0123456789abcdef", b'{"id":1}')
    assert signature == "564c88996eca094e86962bc8c3ca28f6868b19f1646c542d29b5132b84f93dc3"


@pytest.mark.parametrize("secret", [ENCODED, PLAIN, "whsec_not base64 at all!"])
def test_the_hex_signature_uses_the_secret_as_given(secret: str) -> None:
    expected = hmac.new(secret.encode(), BODY, hashlib.sha256).hexdigest()
    assert headers_of([secret])["X-Webhook-Signature"] == expected


def test_an_encoded_secret_verifies_with_the_standard_library_of_the_specification() -> None:
    assert Webhook(ENCODED).verify(BODY, headers_of([ENCODED]))


@pytest.mark.parametrize("secret", [PLAIN, "whsec_not base64 at all!"])
def test_any_other_secret_is_its_own_bytes(secret: str) -> None:
    assert Webhook(secret.encode()).verify(BODY, headers_of([secret]))


def test_for_a_day_both_secrets_verify() -> None:
    headers = headers_of([ENCODED, PLAIN])
    assert len(headers["webhook-signature"].split(" ")) == 2
    assert Webhook(ENCODED).verify(BODY, headers)
    assert Webhook(PLAIN.encode()).verify(BODY, headers)


def test_the_standard_signature_is_the_documented_one() -> None:
    """Compared with openssl: ``openssl dgst -sha256 -hmac ... -binary | base64``."""
    signature = standard_signature(["0123456789abcdef"], "evt_1", 1_700_000_000, b'{"id":1}')
    assert signature == "v1,ABOoKFHCYLcoaUpdpszCCMDi6m27EcTquizDJb/NgzI="


def test_the_headers_name_the_event_and_the_attempt() -> None:
    now = datetime(2026, 11, 20, 12, tzinfo=UTC)
    headers = dict(request_headers([PLAIN], "evt_42", BODY, jws="a..b", attempt_number=3, real_now=now))
    assert headers["webhook-id"] == "evt_42"
    assert headers["X-Webhook-Attempt"] == "3"
    assert headers["webhook-timestamp"] == str(int(now.timestamp()))
    assert headers["X-Webhook-Signature-JWS"] == "a..b"
