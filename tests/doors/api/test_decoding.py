"""Instants, integers and names in requests."""

import contextlib
from datetime import UTC, datetime
from math import inf
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from pixconnect.doors.api.decoding import HUGE, BodyDecoder, QueryDecoder, read_instant, read_integer, read_object
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_instant

JSON = {b"content-type": b"application/json"}


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31t12:00:00z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00.5Z", datetime(2026, 1, 31, 12, 0, 0, 500_000, UTC)),
        ("2026-01-31T12:00:00.1234569Z", datetime(2026, 1, 31, 12, 0, 0, 123_456, UTC)),
        ("2026-01-31T12:00:00." + "9" * 50 + "Z", datetime(2026, 1, 31, 12, 0, 0, 999_999, UTC)),
        ("2026-01-31T12:00:00-03:00", datetime(2026, 1, 31, 15, tzinfo=UTC)),
        ("2026-01-31T12:00:00+23:59", datetime(2026, 1, 30, 12, 1, tzinfo=UTC)),
        ("2026-01-31T12:00:00-00:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2024-02-29T00:00:00Z", datetime(2024, 2, 29, tzinfo=UTC)),
    ],
)
def test_an_instant_may_have_any_offset_and_fraction(text: str, instant: datetime) -> None:
    assert read_instant("at", text) == instant


@pytest.mark.parametrize(
    "text",
    ["", "now", "2026-01-31", "2026-01-31T12:00:00", "2026-01-31T12:00Z", "2026-01-31T12:00:60Z",
     "2026-01-31T24:00:00Z", "2026-02-30T00:00:00Z", "2025-02-29T00:00:00Z", "2026-00-01T00:00:00Z",
     "2026-01-31T12:00:00+24:00", "2026-01-31T12:00:00+0300", "2026-01-31T12:00:00.Z", "26-01-31T12:00:00Z",
     "2026-01-31T12:00:00Z ", "2026-01-31T12:00:00+03:60", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00",
     "٢٠٢٦-01-31T12:00:00Z", "2026-1-31T12:00:00Z"],
)  # fmt: skip
def test_an_instant_without_an_offset_or_that_never_was_is_refused(text: str) -> None:
    with pytest.raises(errors.BadRequest, match=r"^at: "):
        read_instant("at", text)


@pytest.mark.parametrize("filler", ["", " " * 9000])
def test_a_byte_order_mark_before_json_is_passed_over(filler: str) -> None:
    body = b'\xef\xbb\xbf{"a": 1}' + filler.encode()
    assert BodyDecoder(dict[str, int], "json").decode(body, JSON) == {"a": 1}
    assert read_object(body) == {"a": 1}


def test_an_object_of_many_small_elements_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(errors.PayloadTooLarge, match="at most 8192 members and elements"):
        read_object(b'{"\\\\\\"":"","x":[{}' + b",{}" * 4096 + b"]}")
    assert read_object(b'{"x":"' + rb"\",{" * 9000 + b'"}') == {"x": '",{' * 9000}


def test_a_number_beyond_the_largest_is_left_to_the_reader_of_its_member() -> None:
    assert read_object(b'{"a": 1e999}' + b" " * 9000) == {"a": inf}


@given(st.datetimes(min_value=datetime(1000, 1, 1), max_value=datetime(9999, 12, 31), timezones=st.just(UTC)))  # noqa: DTZ001
def test_what_is_written_reads_back(instant: datetime) -> None:
    assert read_instant("at", format_instant(instant)) == instant


@given(st.integers())
def test_an_integer_reads_as_itself_or_as_one_that_is_out_of_any_range(number: int) -> None:
    assert read_integer("n", str(number)) == max(-HUGE, min(number, HUGE))


@pytest.mark.parametrize("text", ["", "-", "+1", "1.0", "1e3", " 1", "1 ", "0x1", "01", "1_000", "٣", "--1"])
def test_what_is_no_plain_integer_is_refused(text: str) -> None:
    with pytest.raises(errors.BadRequest, match=r"^n: must be an integer$"):
        read_integer("n", text)


class Thing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something with limits of every kind."""

    number: Annotated[int, Meta(ge=1, le=9)] | None = None
    share: Annotated[float, Meta(ge=0, le=1)] | None = None
    words: Annotated[list[Annotated[str, Meta(pattern="^[a-z]+$")]], Meta(max_length=2)] | None = None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"number": "1"}', "number: must be an integer"),
        (b'{"share": 1e999}', "share: must be at most 1.0"),
        (b'{"words": ["a\\u0000"]}', "words: must not contain NUL or half a surrogate pair"),
        (b'{"' + b"x" * 200 + b'": 1}', "x" * 64 + ": unknown field"),
        (b'{"a`b\\n": 1}', "a`b\n: unknown field"),
        (b"[]", "body: must be an object"),
        (b"{", "body: must be valid JSON; the fault is at character 2"),
        (b'{"a": 25,50}', "body: must be valid JSON; the fault is at character 10"),
        (b"{'a': 1}", "body: must be valid JSON; the fault is at character 2"),
        (b'{"a": "\xff"}', "body: must be UTF-8"),
    ],
)
def test_a_message_names_the_place_and_the_rule(body: bytes, message: str) -> None:
    with pytest.raises(errors.BadRequest) as caught:
        BodyDecoder(Thing, "json").decode(body, JSON)
    assert caught.value.message == message


@given(st.binary(max_size=60))
def test_a_query_of_any_bytes_is_read_or_refused(query: bytes) -> None:
    with contextlib.suppress(errors.BadRequest):
        QueryDecoder(Thing2).decode(query)


class Thing2(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A query."""

    a: int = 0
    b: bool = False
