"""An institution's answer is readable even if a text in it was cut within a character."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixconnect.features.institutions.adapters.message import LIST_MAX, MalformedAnswer, read_answer
from pixconnect.platform.http.client import ReceivedAnswer

NOW = datetime(2026, 7, 1, tzinfo=UTC)


def read(body: bytes) -> object:
    headers = {"content-type": "application/json"}
    return read_answer(ReceivedAnswer(status_code=200, headers=headers, body=body), NOW).value


@pytest.mark.parametrize(
    ("escaped", "text"),
    [
        (rb"ol\ud83d", "ol\ufffd"),
        (rb"\uDE00 \ud83d\ud83d\ude00", "\ufffd \ufffd\U0001f600"),
        (rb"\ud83d\u0041\ud83d", "\ufffdA\ufffd"),
        (rb"\\ud83d\ud83d", "\\ud83d\ufffd"),
        (rb"\\\ud83d\"", '\\\ufffd"'),
    ],
)
def test_half_a_character_is_read_as_none(escaped: bytes, text: str) -> None:
    assert read(b'[{"infoPagador":"' + escaped + b'","valor":"1.00"}]') == [{"infoPagador": text, "valor": "1.00"}]


@given(st.recursive(st.text() | st.integers(0, 9), st.lists))
def test_what_is_whole_is_read_as_it_is(value: object) -> None:
    said = json.dumps([value, "\ud83d"]).encode()
    if not any("\ud800" <= each <= "\udfff" for each in json.dumps(value, ensure_ascii=False)):
        assert read(said) == [value, "\ufffd"]


@pytest.mark.parametrize("body", [b'["\\ud83d"', b'"\\u12"', b'"\\', b"[\\ud83d]", b'"\xed\xa0\x80"', b"\\" * 9**5, b"[1e999]"])
def test_what_is_no_json_stays_none(body: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        read(body)


@pytest.mark.parametrize("part", [b"[],", b"{},", b"0,"])
def test_far_more_elements_than_a_page_has_are_not_decoded(part: bytes) -> None:
    with pytest.raises(MalformedAnswer, match="more than 400000 members and elements"):
        read(b"[" + part * (LIST_MAX // len(part) - 1) + b"0]")
