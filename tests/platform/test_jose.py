"""Tokens and signatures, checked with elliptic curves alone."""

import json
from typing import Any

import pytest

from pixconnect.platform import jose
from support import identity

KEY = jose.make_key()
KID = jose.thumbprint(KEY)
SIGNER = jose.PrivateKey(KEY, KID)
PUBLIC = identity.public_key(json.loads(jose.write_public_jwk(KEY)))


def make_claims(**changes: Any) -> jose.Claims:
    fields: dict[str, Any] = {
        "iss": "https://auth.example", "aud": "pix-connect", "sub": "client", "holder_id": "7",
        "scope": "charge.read charge.write", "iat": 1_800_000_000, "exp": 1_800_000_300, "jti": "1",
    }  # fmt: skip
    return jose.Claims(**(fields | changes))


def make_token() -> bytes:
    return jose.sign_token(SIGNER, make_claims()).encode()


def read_token(token: bytes) -> jose.Claims:
    jose.read_token_kid(token)
    return jose.verify_token(token, KEY)


def test_a_token_is_signed_with_es256_and_says_what_it_is() -> None:
    token = make_token().decode()
    header, payload, signature = identity.split(token)
    assert header == {"alg": "ES256", "kid": KID, "typ": "at+jwt"}
    assert json.loads(payload)["scope"] == "charge.read charge.write"
    assert identity.is_signed(token.rpartition(".")[0], signature, PUBLIC)


def test_a_token_of_ours_is_read_back() -> None:
    token = make_token()
    assert jose.read_token_kid(token) == KID
    assert jose.verify_token(token, jose.read_public_jwk(jose.write_public_jwk(KEY))) == make_claims()


def test_any_changed_character_of_a_token_is_refused() -> None:
    token = make_token()
    for place in range(len(token)):
        changed = token[:place] + (b"B" if token[place : place + 1] != b"B" else b"C") + token[place + 1 :]
        with pytest.raises(jose.TokenInvalid):
            read_token(changed)


def test_a_token_of_another_key_is_refused() -> None:
    with pytest.raises(jose.TokenInvalid, match="signature"):
        jose.verify_token(make_token(), jose.make_key())


@pytest.mark.parametrize("signature", [b"", b"AAAA", b"A" * 86, b"A" * 88, b"=", "é".encode()])
def test_a_token_with_no_signature_to_speak_of_is_refused(signature: bytes) -> None:
    with pytest.raises(jose.TokenInvalid):
        jose.verify_token(make_token().rpartition(b".")[0] + b"." + signature, KEY)


@pytest.mark.parametrize(
    "header",
    [
        {},
        [],
        {"alg": "none", "kid": KID, "typ": "at+jwt"},
        {"alg": "HS256", "kid": KID, "typ": "at+jwt"},
        {"alg": "es256", "kid": KID, "typ": "at+jwt"},
        {"alg": "ES256", "typ": "at+jwt"},
        {"alg": "ES256", "kid": 1, "typ": "at+jwt"},
        {"alg": "ES256", "kid": KID, "typ": "JWT"},
        {"alg": "ES256", "kid": KID},
        {"alg": "ES256", "kid": KID, "typ": "at+jwt", "crit": ["exp"]},
    ],
)
def test_a_header_that_is_not_ours_is_refused(header: object) -> None:
    head = identity.encode(json.dumps(header).encode())
    with pytest.raises(jose.TokenInvalid):
        jose.read_token_kid(f"{head}.e30.AAAA".encode())


@pytest.mark.parametrize("token", [b"", b".", b"..", b"...", b"a.b", b"a.b.c.d", b"\xff.\xff.\xff", b"e30=.e30.e30"])
def test_what_is_no_token_is_refused(token: bytes) -> None:
    with pytest.raises(jose.TokenInvalid):
        jose.read_token_kid(token)


@pytest.mark.parametrize("claim", ["iss", "aud", "sub", "holder_id", "scope", "iat", "exp", "jti"])
def test_a_token_that_lacks_a_claim_is_refused(claim: str) -> None:
    _, payload, _ = identity.split(make_token().decode())
    claims = json.loads(payload)
    del claims[claim]
    token = SIGNER.sign(json.dumps(claims).encode(), {"typ": "at+jwt"}).encode()
    with pytest.raises(jose.TokenInvalid, match="claims"):
        jose.verify_token(token, KEY)


def test_a_signature_has_the_same_length_also_where_one_of_its_numbers_is_short() -> None:
    # One number in 256 begins with an empty octet.
    for number in range(1000):
        signed, _, signature = SIGNER.sign(b"%d" % number).rpartition(".")
        assert len(signature) == 86
        assert identity.is_signed(signed, identity.decode(signature), PUBLIC)


def test_a_detached_signature_is_over_the_body_that_travels_beside_it() -> None:
    body = b'{"id":1,"name":"qrcode.approved"}'
    head, middle, signature = SIGNER.sign_detached(body, {"aud": "7", "iat": 1, "jti": "evt_1"}).split(".")
    assert middle == ""
    assert identity.is_signed(f"{head}.{identity.encode(body)}", identity.decode(signature), PUBLIC)
    assert not identity.is_signed(f"{head}.{identity.encode(body + b' ')}", identity.decode(signature), PUBLIC)


def test_a_private_key_is_read_back() -> None:
    again = jose.PrivateKey(jose.read_private_key(jose.write_private_key(KEY)), KID)
    assert jose.is_signed_by(again.sign(b"x"), KEY)


def test_what_is_published_has_no_private_part() -> None:
    jwk = jose.published_jwk(KID, jose.write_public_jwk(KEY))
    assert list(jwk) == ["kid", "kty", "crv", "x", "y", "alg", "use"]
    assert "PRIVATE" not in jose.write_public_pem(KEY)
