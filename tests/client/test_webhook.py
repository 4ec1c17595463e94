"""Webhooks as the service signs them, verified by the client; for errors see ``test_webhook_vectors``."""

import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from hypothesis import given, settings
from hypothesis import strategies as st
from standardwebhooks import Webhook as StandardWebhook

from pixconnect.features.webhooks.rules import endpoint as webhook_signature
from pixconnect.platform import jose
from pixconnect_client import (
    ChargePayload,
    Event,
    InvalidWebhook,
    UnknownSigningKey,
    verify_notice,
    verify_webhook,
    verify_webhook_body,
    verify_webhook_jws,
)
from pixconnect_client import webhook as client_webhook

PLAIN = "my first webhook secret"
ENCODED = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
OTHER = "another secret of ours"
SENT_S = 1_800_000_000
KEY_PAIRS = {kid: jose.make_key() for kid in ("one", "two", "unpublished")}
KEYS = {kid: jose.PrivateKey(key, kid) for kid, key in KEY_PAIRS.items()}
KEY_SET: dict[str, object] = {
    "keys": [jose.published_jwk(kid, jose.write_public_jwk(KEY_PAIRS[kid])) for kid in ("one", "two")]
}
GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "webhooks.md").read_text(encoding="utf-8")
BODY = re.search(r"^```json\n(.*?)\n```", GUIDE, re.MULTILINE | re.DOTALL)[1].encode()  # type: ignore[index]
VECTORS = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \| `([^`]+)` \|$", GUIDE, re.MULTILINE)


def headers_of(*secrets: str, sent_s: float = SENT_S) -> dict[str, str]:
    """As the service sends them."""
    made = webhook_signature.request_headers(
        secrets, "evt_1", BODY, jws="a..b", attempt_number=1, real_now=datetime.fromtimestamp(sent_s, UTC)
    )
    return dict(made)


def verify(headers: dict[str, str], secret: Any = PLAIN, *, at_s: float = SENT_S, **options: Any) -> Event:
    return verify_webhook(BODY, headers, secret, now=lambda: at_s, **options)


@pytest.mark.parametrize(("secret", "header", "value"), VECTORS)
def test_the_guides_vectors_fit(secret: str, header: str, value: str) -> None:
    headers = {"webhook-id": "evt_1", "webhook-timestamp": str(SENT_S), header: value}
    event = verify_webhook_body(BODY, headers, secret) if header.startswith("X-") else verify(headers, secret)
    assert isinstance(event.payload, ChargePayload)
    assert (event.id, event.name, event.payload.status) == (1, "qrcode.approved", "APPROVED")
    assert event.create_timestamp == datetime(2026, 11, 20, 12, 0, 5, tzinfo=UTC)


def test_the_guide_has_vectors_of_each_kind() -> None:
    assert {(secret, header) for secret, header, _ in VECTORS} == {
        (PLAIN, "X-Webhook-Signature"), (PLAIN, "webhook-signature"), (ENCODED, "webhook-signature"),
    }  # fmt: skip


@pytest.mark.parametrize("secret", [PLAIN, ENCODED, "whsec_not base64 at all", "çedilha e açúcar ±"])
def test_what_the_service_sends_fits_by_both_signatures(secret: str) -> None:
    headers = headers_of(secret, OTHER)
    assert verify(headers, secret) == verify_webhook_body(BODY, headers, secret)


def test_what_the_specifications_own_library_signs_fits_and_the_other_way_round() -> None:
    now = datetime.now(UTC)
    signature = StandardWebhook(ENCODED).sign("evt_9", now, BODY.decode())
    headers = {"webhook-id": "evt_9", "webhook-timestamp": str(int(now.timestamp())), "webhook-signature": signature}
    assert verify_webhook(BODY, headers, ENCODED).id == 1
    assert StandardWebhook(ENCODED).verify(BODY, headers_of(ENCODED, OTHER, sent_s=time.time()))


def test_a_refusal_does_not_show_the_secret() -> None:
    for check in (verify_webhook_body, verify_webhook):
        with pytest.raises(InvalidWebhook) as refused:
            check(BODY + b" ", headers_of(PLAIN, sent_s=time.time()), PLAIN)
        assert PLAIN not in str(refused.value)


def test_without_being_told_the_time_is_the_machines() -> None:
    assert verify_webhook(BODY, headers_of(PLAIN, sent_s=time.time()), PLAIN)
    with pytest.raises(InvalidWebhook, match="older"):
        verify_webhook(BODY, headers_of(PLAIN, sent_s=time.time() - 400), PLAIN)


def test_what_only_the_receivers_own_program_can_get_wrong_is_its_own_error() -> None:
    with pytest.raises(TypeError, match="raw bytes"):
        verify_webhook(BODY.decode(), headers_of(PLAIN), PLAIN)  # type: ignore[arg-type]
    for secret in ("", None, [], [PLAIN, ""], [PLAIN, None], "whsec_"):
        with pytest.raises(ValueError, match="must not be empty"):
            verify(headers_of(PLAIN), secret)


def sign_jws(kid: str = "one", event_id: int = 1, body: bytes = BODY, **changes: Any) -> dict[str, str]:
    """As the service sends them to holder 7, with the given changes of the header."""
    says = webhook_signature.jws_header(7, f"evt_{event_id}", SENT_S) | changes
    return {"webhook-id": "evt_1", "X-Webhook-Signature-JWS": KEYS[kid].sign_detached(body, says)}


def verify_jws(headers: dict[str, str], holder_id: int | str = 7, **options: Any) -> Event:
    return verify_webhook_jws(BODY, headers, KEY_SET, holder_id, now=lambda: SENT_S, **options)


@pytest.mark.parametrize("kid", ["one", "two"])
@pytest.mark.parametrize("holder_id", [7, "7"])
def test_what_is_signed_for_this_holder_by_a_published_key_fits(kid: str, holder_id: int | str) -> None:
    event = verify_jws(sign_jws(kid), holder_id)
    assert (event.id, event.name) == (1, "qrcode.approved")


def test_a_key_that_is_not_known_is_said_apart_so_that_the_keys_are_read_again() -> None:
    with pytest.raises(UnknownSigningKey):
        verify_jws(sign_jws("unpublished"))
    with pytest.raises(ValueError, match="holder_id"):
        verify_jws(sign_jws(), "")


@settings(max_examples=60, deadline=None)
@given(message=st.binary(max_size=80), spoilt_bit=st.integers(0, 511), s_is_zero=st.booleans())
def test_es256_takes_what_the_key_signed_and_nothing_else(message: bytes, spoilt_bit: int, s_is_zero: bool) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    point = key.public_key().public_numbers()
    r, s = decode_dss_signature(key.sign(message, ec.ECDSA(hashes.SHA256())))
    signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    assert client_webhook._is_signed(message, signature, point.x, point.y)
    spoilt = (int.from_bytes(signature, "big") ^ 1 << spoilt_bit).to_bytes(64, "big")
    assert not client_webhook._is_signed(message, spoilt, point.x, point.y)
    assert not client_webhook._is_signed(message + b"x", signature, point.x, point.y)
    assert not client_webhook._is_signed(message, signature, point.x, point.y ^ 1)
    zero = bytes(32)
    assert not client_webhook._is_signed(
        message, signature[:32] + zero if s_is_zero else zero + signature[32:], point.x, point.y
    )
    assert not client_webhook._is_signed(message, signature[:-1], point.x, point.y)


def test_the_fixed_vector_of_the_specification_verifies() -> None:
    """RFC 7515, appendix A.3."""
    x = int.from_bytes(client_webhook._decode("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"), "big")
    y = int.from_bytes(client_webhook._decode("x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"), "big")
    signed = (
        b"eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
    )
    signature = client_webhook._decode("DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q")
    assert client_webhook._is_signed(signed, signature, x, y)


NOTICE = b'{"pix":[{"endToEndId":"E1","txid":"t1","valor":"10.00","chave":"loja@shop.example","horario":"x"}]}'


def notice_headers(body: bytes = NOTICE, *, holder_id: int = 7, message: str = "pix_9", kid: str = "one") -> dict[str, str]:
    """A webhook of a key."""
    jws = KEYS[kid].sign_detached(body, webhook_signature.jws_header(holder_id, message, SENT_S))
    return {"X-Webhook-Signature-JWS": jws, "webhook-id": message}


def check_notice(headers: dict[str, str], body: bytes = NOTICE, *, pix_keys: Any = "loja@shop.example") -> list[Any]:
    return verify_notice(body, headers, KEY_SET, 7, pix_keys, now=lambda: SENT_S + 1)


def test_a_notice_of_a_key_of_ours_is_read_in_the_words_of_its_api() -> None:
    (pix,) = check_notice(notice_headers(), pix_keys=["+5511999990000", "loja@shop.example"])
    assert (pix["endToEndId"], pix["txid"], pix["valor"]) == ("E1", "t1", "10.00")


def test_a_check_of_a_notice_needs_keys() -> None:
    for pix_keys in ("", [], ["loja@shop.example", ""]):
        with pytest.raises(ValueError, match="pix_keys: must name"):
            check_notice(notice_headers(), pix_keys=pix_keys)
