"""What a receiver is told of whatever comes, by the package that it may use."""

import base64
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

from pixconnect.domain.webhooks import signature as webhook_signature
from pixconnect.foundation import jose
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


def test_while_a_secret_is_changed_receivers_with_either_or_both_go_on() -> None:
    during = headers_of("the new secret 1", PLAIN)
    for secret in ("the new secret 1", PLAIN, ["the new secret 1", PLAIN], [PLAIN, "the new secret 1"]):
        assert verify(during, secret)
    assert verify_webhook_body(BODY, during, [PLAIN, "the new secret 1"])
    with pytest.raises(InvalidWebhook):
        verify_webhook_body(BODY, during, PLAIN)


def test_names_of_headers_are_read_in_any_case_and_other_versions_are_passed_over() -> None:
    headers = {name.upper(): value for name, value in headers_of(PLAIN).items()}
    headers["WEBHOOK-SIGNATURE"] = f"v1a,c2lnbmVk v2,eA== {headers['WEBHOOK-SIGNATURE']}"
    assert verify(headers)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"webhook-id": None}, "webhook-id: missing"),
        ({"webhook-timestamp": None}, "webhook-timestamp: missing"),
        ({"webhook-signature": None}, "webhook-signature: missing"),
        ({"webhook-signature": " "}, "webhook-signature: missing"),
        ({"webhook-timestamp": "yesterday"}, "webhook-timestamp: must be whole seconds since 1970"),
        ({"webhook-timestamp": "1800000000.0"}, "webhook-timestamp: must be whole seconds since 1970"),
        ({"webhook-timestamp": "-1"}, "webhook-timestamp: must be whole seconds since 1970"),
        ({"webhook-timestamp": "٣"}, "webhook-timestamp: must be whole seconds since 1970"),
        ({"webhook-timestamp": "9" * 400}, "webhook-timestamp: must be whole seconds since 1970"),
        ({"webhook-timestamp": str(SENT_S - 301)}, "webhook-timestamp: is older than 300 s"),
        ({"webhook-timestamp": str(SENT_S + 301)}, "webhook-timestamp: is more than 300 s ahead of this machine's clock"),
        ({"webhook-timestamp": str(SENT_S + 1)}, "webhook-signature: no signature fits"),
        ({"webhook-id": "evt_2"}, "webhook-signature: no signature fits"),
        ({"webhook-signature": "v1,"}, "webhook-signature: no signature fits"),
        ({"webhook-signature": "v1,ção"}, "webhook-signature: no signature fits"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_and_said(change: dict[str, str | None], message: str) -> None:
    headers = {name.lower(): value for name, value in headers_of(PLAIN).items()} | change
    with pytest.raises(InvalidWebhook, match=re.escape(message)):
        verify({name: value for name, value in headers.items() if value is not None})


def test_a_missing_signature_is_not_made_up_for_by_the_weaker_one() -> None:
    headers = {"X-Webhook-Signature": headers_of(PLAIN)["X-Webhook-Signature"]}
    with pytest.raises(InvalidWebhook, match="webhook-id: missing"):
        verify(headers)


def test_a_changed_body_another_secret_and_a_signature_in_capitals_are_refused() -> None:
    headers = headers_of(PLAIN)
    for check in (
        lambda: verify_webhook(BODY + b" ", headers, PLAIN, now=lambda: SENT_S),
        lambda: verify(headers, OTHER),
        lambda: verify_webhook_body(BODY + b" ", headers, PLAIN),
        lambda: verify_webhook_body(BODY, headers, OTHER),
        lambda: verify_webhook_body(BODY, headers | {"X-Webhook-Signature": "A" * 64}, PLAIN),
        lambda: verify_webhook_body(BODY, {}, PLAIN),
    ):
        with pytest.raises(InvalidWebhook) as refused:
            check()
        assert PLAIN not in str(refused.value)


@pytest.mark.parametrize(("at_s", "is_good"), [(-300, True), (-301, False), (300, True), (301, False)])
def test_the_tolerance_includes_its_ends(at_s: int, is_good: bool) -> None:
    if is_good:
        assert verify(headers_of(PLAIN), at_s=SENT_S + at_s)
    else:
        with pytest.raises(InvalidWebhook):
            verify(headers_of(PLAIN), at_s=SENT_S + at_s)
    assert verify(headers_of(PLAIN), at_s=SENT_S + at_s, tolerance_s=301)


def test_without_being_told_the_time_is_the_machines() -> None:
    assert verify_webhook(BODY, headers_of(PLAIN, sent_s=time.time()), PLAIN)
    with pytest.raises(InvalidWebhook, match="older"):
        verify_webhook(BODY, headers_of(PLAIN, sent_s=time.time() - 400), PLAIN)


def test_what_only_the_receivers_own_program_can_get_wrong_is_its_own_error() -> None:
    with pytest.raises(TypeError, match="octets"):
        verify_webhook(BODY.decode(), headers_of(PLAIN), PLAIN)  # type: ignore[arg-type]
    for secret in ("", [], [PLAIN, ""], "whsec_"):
        with pytest.raises(ValueError, match="missing or empty"):
            verify(headers_of(PLAIN), secret)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"\xff"])
def test_what_is_signed_and_no_event_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidWebhook, match="body: "):
        verify_webhook_body(body, {"X-Webhook-Signature": webhook_signature.hex_signature(PLAIN, body)}, PLAIN)


def sign_jws(kid: str = "one", event_id: int = 1, body: bytes = BODY, **changes: Any) -> dict[str, str]:
    """As the service sends them to holder 7, but for what is changed of the header."""
    says = webhook_signature.jws_header(7, f"evt_{event_id}", SENT_S) | changes
    return {"webhook-id": "evt_1", "X-Webhook-Signature-JWS": KEYS[kid].sign_detached(body, says)}


def verify_jws(headers: dict[str, str], holder_id: int | str = 7, **options: Any) -> Event:
    return verify_webhook_jws(BODY, headers, KEY_SET, holder_id, now=lambda: SENT_S, **options)


@pytest.mark.parametrize("kid", ["one", "two"])
@pytest.mark.parametrize("holder_id", [7, "7"])
def test_what_is_signed_for_this_holder_by_a_published_key_fits(kid: str, holder_id: int | str) -> None:
    event = verify_jws(sign_jws(kid), holder_id)
    assert (event.id, event.name) == (1, "qrcode.approved")


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"webhook-id": "evt_1"}, "x-webhook-signature-jws: missing"),
        (sign_jws(aud="8"), "aud: is for another holder"),
        (sign_jws(aud=7), "aud: is for another holder"),
        (sign_jws() | {"webhook-id": "evt_2"}, "jti: is of another event than webhook-id"),
        (sign_jws(event_id=2) | {"webhook-id": "evt_2"}, "jti: is of another event than the body"),
        ({"X-Webhook-Signature-JWS": sign_jws()["X-Webhook-Signature-JWS"]}, "webhook-id: missing"),
        (sign_jws(iat=SENT_S - 301), "iat: is older than 300 s"),
        (sign_jws(iat=SENT_S + 301), "iat: is more than 300 s ahead of this machine's clock"),
        (sign_jws(iat="now"), "iat: must be whole seconds since 1970"),
        (sign_jws(body=BODY + b" "), "does not fit the body and the key"),
        (sign_jws("unpublished"), "kid: is none of the keys that are known"),
        (sign_jws(alg="none"), "must be signed with ES256"),
        (sign_jws(crit=["b64"]), "and have nothing critical"),
        (sign_jws(crit=[]), "and have nothing critical"),
        (sign_jws(iat=10**400), "iat: must be whole seconds since 1970"),
        (sign_jws() | {"webhook-id": "evt_\udcff"}, "jti: is of another event than webhook-id"),
    ],
)
def test_what_is_signed_for_another_holder_event_or_time_is_refused(headers: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidWebhook, match=re.escape(message)):
        verify_jws(headers)


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "a.b",
        "..",
        "e30..",
        "e30.e30.",
        "W10..AA",
        "ÄÖ..AA",
        "!!..AA",
        "e30..AA.AA",
        "eyJhbGciOiJFUzI1NiJ9..AA",
        "\udcff..AA",
        "gICA..AA",
    ],
)
def test_what_is_no_detached_jws_is_refused(text: str) -> None:
    with pytest.raises(InvalidWebhook):
        verify_jws({"webhook-id": "evt_1", "X-Webhook-Signature-JWS": text})


def test_a_header_of_endless_depth_is_refused() -> None:
    deep = base64.urlsafe_b64encode(b"[" * 12_000).decode().rstrip("=")
    with pytest.raises(InvalidWebhook):
        verify_jws({"webhook-id": "evt_1", "X-Webhook-Signature-JWS": f"{deep}..AA"})


def test_a_key_that_is_not_known_is_said_apart_so_that_the_keys_are_read_again() -> None:
    with pytest.raises(UnknownSigningKey):
        verify_jws(sign_jws("unpublished"))
    with pytest.raises(ValueError, match="holder_id"):
        verify_jws(sign_jws(), "")


def test_a_signature_has_one_right_form() -> None:
    sent = sign_jws()
    jws = sent["X-Webhook-Signature-JWS"]
    # Of the last character four bits count.
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    same_octets = jws[:-1] + alphabet[alphabet.index(jws[-1]) ^ 1]
    for text in (f"{jws}==", same_octets, f"{jws[:-4]} {jws[-4:]}"):
        with pytest.raises(InvalidWebhook, match="must be a detached JWS"):
            verify_jws(sent | {"X-Webhook-Signature-JWS": text})


ONE: dict[str, Any] = KEY_SET["keys"][0]  # type: ignore[index]


@pytest.mark.parametrize(
    "keys",
    [
        *(None, [], "keys", 5, {}),
        *({"keys": keys} for keys in (None, "one", 5, {"one": ONE}, [None], ["one"], [[1]])),
        *(
            {"keys": [ONE | {"x": x}]}
            for x in (None, 5, ["a"], "", "!!", "\xc4", "\ud800", "AA" + ONE["x"], ONE["x"] + "=")
        ),
        *({"keys": [ONE | change]} for change in ({"kty": "oct"}, {"crv": "P-384"}, {"use": "enc"}, {"alg": "ES384"})),
        {"keys": [{name: value for name, value in ONE.items() if name != "y"}]},
    ],
)
def test_what_is_no_key_set_has_no_key_that_is_known(keys: Any) -> None:
    with pytest.raises(UnknownSigningKey):
        verify_webhook_jws(BODY, sign_jws(), keys, 7, now=lambda: SENT_S)


def test_one_bad_key_of_a_set_spoils_no_other_and_a_point_off_the_curve_signs_nothing() -> None:
    mixed = {"keys": [None, {"kty": "RSA"}, ONE | {"x": None}, ONE]}
    assert verify_webhook_jws(BODY, sign_jws(), mixed, 7, now=lambda: SENT_S).id == 1
    with pytest.raises(InvalidWebhook, match="does not fit the body and the key"):
        verify_webhook_jws(BODY, sign_jws(), {"keys": [ONE | {"x": ONE["y"]}]}, 7, now=lambda: SENT_S)


def test_half_a_character_in_the_header_of_a_jws_is_refused_though_the_key_signed_it() -> None:
    says = rb'{"alg":"ES256","kid":"one","aud":"\ud800","iat":1800000000,"jti":"evt_1"}'
    head, body = (base64.urlsafe_b64encode(octets).rstrip(b"=") for octets in (says, BODY))
    signature = KEYS["one"]._sign(head + b"." + body)
    with pytest.raises(InvalidWebhook, match="must be a detached JWS"):
        verify_jws({"webhook-id": "evt_1", "X-Webhook-Signature-JWS": f"{head.decode()}..{signature.decode()}"})


def test_octets_of_a_header_that_are_no_text_fit_nothing() -> None:
    for name in ("webhook-id", "webhook-signature"):
        with pytest.raises(InvalidWebhook, match="no signature fits"):
            verify(headers_of(PLAIN) | {name: "v1,\udcff"})
    with pytest.raises(InvalidWebhook, match="does not fit"):
        verify_webhook_body(BODY, {"X-Webhook-Signature": "\udcff"}, PLAIN)


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
        b"eyJhbGciOiJFUzI1NiJ9."
        b"eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
    )
    signature = client_webhook._decode(
        "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
    )
    assert client_webhook._is_signed(signed, signature, x, y)


NOTICE = b'{"pix":[{"endToEndId":"E1","txid":"t1","valor":"10.00","chave":"loja@shop.example","horario":"x"}]}'


def notice_headers(
    body: bytes = NOTICE, *, holder_id: int = 7, message: str = "pix_9", kid: str = "one"
) -> dict[str, str]:
    """As the service sends it to the webhook of a key."""
    jws = KEYS[kid].sign_detached(body, webhook_signature.jws_header(holder_id, message, SENT_S))
    return {"X-Webhook-Signature-JWS": jws, "webhook-id": message}


def check_notice(headers: dict[str, str], body: bytes = NOTICE, *, pix_keys: Any = "loja@shop.example") -> list[Any]:
    return verify_notice(body, headers, KEY_SET, 7, pix_keys, now=lambda: SENT_S + 1)


def test_a_notice_of_a_key_of_ours_is_read_in_the_words_of_its_api() -> None:
    (pix,) = check_notice(notice_headers(), pix_keys=["+5511999990000", "loja@shop.example"])
    assert (pix["endToEndId"], pix["txid"], pix["valor"]) == ("E1", "t1", "10.00")


def test_a_true_notice_about_somebody_elses_key_is_refused_though_everything_else_in_it_is_ours() -> None:
    # Another holder named our URL for its key, and made a charge with our txid: the service signs for that holder.
    stolen = NOTICE.replace(b"loja@shop.example", b"ladra@shop.example")
    with pytest.raises(InvalidWebhook, match=r"aud: is for another holder"):
        check_notice(notice_headers(stolen, holder_id=8), stolen)
    # And of several keys of one holder only those with this URL count.
    with pytest.raises(InvalidWebhook, match=r"^body: pix\[0\]\.chave: is no key of yours$"):
        check_notice(notice_headers(stolen), stolen)
    without = NOTICE.replace(b'"chave":"loja@shop.example",', b"")
    with pytest.raises(InvalidWebhook, match=r"pix\[0\]\.chave"):
        check_notice(notice_headers(without), without)


@pytest.mark.parametrize(
    ("headers", "body", "message"),
    [
        (notice_headers(), NOTICE + b" ", "does not fit the body and the key"),
        (notice_headers() | {"webhook-id": "pix_8"}, NOTICE, "jti: is of another event than webhook-id"),
        (notice_headers(message="evt_9"), NOTICE, "jti: is of no notice"),
        (notice_headers(b'{"pix":{}}'), b'{"pix":{}}', "body: signed, but no notice"),
        ({"webhook-id": "pix_9"}, NOTICE, "x-webhook-signature-jws: missing"),
    ],
)
def test_what_is_no_notice_of_ours_is_refused_and_said(headers: dict[str, str], body: bytes, message: str) -> None:
    with pytest.raises(InvalidWebhook, match=message):
        check_notice(headers, body)


def test_an_old_notice_one_of_an_unknown_key_and_a_check_without_keys_are_refused() -> None:
    with pytest.raises(InvalidWebhook, match="iat: is older than 300 s"):
        verify_notice(NOTICE, notice_headers(), KEY_SET, 7, "loja@shop.example", now=lambda: SENT_S + 301)
    with pytest.raises(UnknownSigningKey):
        check_notice(notice_headers(kid="unpublished"))
    for pix_keys in ("", [], ["loja@shop.example", ""]):
        with pytest.raises(ValueError, match="pix_keys: missing"):
            check_notice(notice_headers(), pix_keys=pix_keys)
