"""How often an event is signed, and the contents of its signature."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from pixconnect.features.webhooks.worker.delivery import EventSignatures
from pixconnect.platform import jose
from pixconnect.platform.base import errors
from support import identity
from support.records import make_delivery
from support.service import STARTED_AT


class CountingSigner:
    """Signs with one key, or with none."""

    def __init__(self) -> None:
        self.keys = [jose.PrivateKey(jose.make_key(), "first")]
        self.signed_count = 0

    async def look_after_rest(self) -> None:
        raise NotImplementedError

    @property
    def current_kid(self) -> str:
        if not self.keys:
            raise errors.ServiceUnavailable("signing key: there is none to sign with")
        return self.keys[-1].kid

    def sign_detached(self, body: bytes, header: Mapping[str, str | int]) -> str:
        self.signed_count += 1
        return self.keys[-1].sign_detached(body, header)

    def sign_jws(self, payload: bytes, header: Mapping[str, str] | None = None) -> str:
        raise NotImplementedError

    def sign_location(self, payload: bytes, jku: str) -> str:
        raise NotImplementedError


def header_of(jws: str) -> dict[str, Any]:
    return json.loads(identity.decode(jws.split(".", maxsplit=1)[0]))


def test_an_event_is_signed_for_its_holder_with_its_name_and_the_second() -> None:
    jws = EventSignatures(CountingSigner()).sign(make_delivery(holder_id=7, event_id=42), STARTED_AT)
    assert header_of(jws) == {
        "alg": "ES256", "kid": "first", "aud": "7", "iat": int(STARTED_AT.timestamp()), "jti": "evt_42",
    }  # fmt: skip


def test_all_attempts_of_a_minute_carry_one_signature_and_none_an_old_one() -> None:
    signer = CountingSigner()
    signatures = EventSignatures(signer)
    for after_s in range(600):
        at = STARTED_AT + timedelta(seconds=after_s, milliseconds=999)
        for endpoint_id in (1, 2, 3):
            issued_s = header_of(signatures.sign(make_delivery(endpoint_id=endpoint_id), at))["iat"]
            assert 0 <= at.timestamp() - issued_s <= 60
    assert 10 <= signer.signed_count <= 14


def test_a_clock_that_is_set_back_makes_no_signature_of_the_future() -> None:
    signatures = EventSignatures(CountingSigner())
    signatures.sign(make_delivery(), STARTED_AT)
    earlier = STARTED_AT - timedelta(hours=1)
    assert header_of(signatures.sign(make_delivery(), earlier))["iat"] == int(earlier.timestamp())


def test_a_signature_goes_with_its_key() -> None:
    signer = CountingSigner()
    signatures = EventSignatures(signer)
    signatures.sign(make_delivery(), STARTED_AT)
    signer.keys.append(jose.PrivateKey(jose.make_key(), "second"))
    assert header_of(signatures.sign(make_delivery(), STARTED_AT))["kid"] == "second"
    signer.keys.clear()
    with pytest.raises(errors.ServiceUnavailable):
        signatures.sign(make_delivery(), STARTED_AT)


def test_no_more_signatures_are_kept_than_there_is_room_for() -> None:
    signer = CountingSigner()
    signatures = EventSignatures(signer, kept_max=3)

    def sign(event_id: int, at: datetime = STARTED_AT) -> None:
        signatures.sign(make_delivery(event_id=event_id), at)

    for event_id in (1, 2, 3, 4, 4, 3, 2):
        sign(event_id)
    assert signer.signed_count == 4
    sign(1)
    assert signer.signed_count == 5
