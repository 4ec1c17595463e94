"""Values of the domain's frame: cents, names, cursors, rates, filters."""

import base64
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixconnect.doors.console.wanted import read_amounts, read_instants, read_one_amount
from pixconnect.kernel.rules import br_code, identifiers, listing, money
from pixconnect.kernel.rules.listing import Cursor, read_cursor, write_cursor
from pixconnect.platform.adapters.system import SystemEntropy
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import RatePolicy, TokenBucket


@pytest.mark.parametrize("amount_cents", [1, 2, 10607, 999_999_999_999])
def test_an_amount_in_range_is_accepted(amount_cents: int) -> None:
    money.check_amount(amount_cents)


@pytest.mark.parametrize("amount_cents", [0, -1, 1_000_000_000_000, 2**63, -(2**63) - 1])
def test_an_amount_out_of_range_is_refused(amount_cents: int) -> None:
    with pytest.raises(errors.AmountOutOfRange, match=r"^amount: must be from 1 to 999999999999 cents$"):
        money.check_amount(amount_cents)


def test_an_amount_of_5000_digits_is_refused() -> None:
    with pytest.raises(errors.AmountOutOfRange):
        money.check_amount(10**5000)


@pytest.mark.parametrize(
    ("amount_cents", "text"),
    [(0, "0.00"), (1, "0.01"), (10, "0.10"), (100, "1.00"), (123456, "1234.56"), (999_999_999_999, "9999999999.99")],
)
def test_an_amount_is_written_with_two_decimals(amount_cents: int, text: str) -> None:
    assert money.format_reais(amount_cents) == text


@given(st.integers(0, money.AMOUNT_MAX_CENTS))
def test_a_written_amount_reads_back_and_fits_a_br_code(amount_cents: int) -> None:
    text = money.format_reais(amount_cents)
    assert br_code.parse_amount(text) == amount_cents
    assert len(text) <= 13


INSTANT = datetime(2026, 11, 20, 7, 53, 59, 999_999, tzinfo=UTC)


def test_an_end_to_end_id_says_who_and_when() -> None:
    name = identifiers.make_end_to_end_id("99999003", INSTANT, SystemEntropy())
    assert (name[:21], len(name)) == ("E99999003202611200753", 32)
    assert identifiers.is_end_to_end_id(name)
    assert not identifiers.is_return_id(name)


def test_a_return_id_says_who_and_when() -> None:
    name = identifiers.make_return_id("9999A003", INSTANT, SystemEntropy())
    assert (name[:21], len(name)) == ("D9999A003202611200753", 32)
    assert identifiers.is_return_id(name)
    assert not identifiers.is_end_to_end_id(name)


def test_the_minute_is_that_of_utc() -> None:
    brasilia = INSTANT.astimezone(timezone(timedelta(hours=-3)))
    assert identifiers.make_end_to_end_id("99999003", brasilia, SystemEntropy())[9:21] == "202611200753"


def test_a_txid_has_32_letters_and_digits() -> None:
    txid = identifiers.make_txid(INSTANT, SystemEntropy())
    assert len(txid) == 32
    assert identifiers.is_txid(txid)


def test_no_two_names_are_alike() -> None:
    entropy = SystemEntropy()
    assert len({identifiers.make_end_to_end_id("99999003", INSTANT, entropy) for _ in range(1000)}) == 1000
    assert len({identifiers.make_txid(INSTANT, entropy) for _ in range(1000)}) == 1000


@pytest.mark.parametrize(
    "text",
    ["", "99999003202611200753a1B2c3D4e5F", "E9999900a202611200753a1B2c3D4e5F", "E99999003202621200753a1B2c3D4e5F",
     "E99999003202611402753a1B2c3D4e5F", "E99999003202611203053a1B2c3D4e5F", "E99999003202611200763a1B2c3D4e5F",
     "E99999003202611200753a1B2c3D4e5", "E99999003202611200753a1B2c3D4e5F0", "E99999003202611200753a1B2c3D4e5-",
     "E99999003202611200753a1B2c3D4e5\n", "E99999003202611200753a1B2c3D4e5F\n",
     "E9999900\N{FULLWIDTH DIGIT THREE}202611200753a1B2c3D4e5F"],
)  # fmt: skip
def test_what_is_no_end_to_end_id_is_seen(text: str) -> None:
    assert not identifiers.is_end_to_end_id(text)
    assert not identifiers.is_return_id(text.replace("E", "D", 1))


@pytest.mark.parametrize(("length", "is_one"), [(0, False), (25, False), (26, True), (35, True), (36, False)])
def test_a_txid_of_any_institution_has_26_to_35_characters(length: int, *, is_one: bool) -> None:
    assert identifiers.is_txid("a" * length) is is_one


def test_names_are_case_sensitive() -> None:
    assert not identifiers.is_end_to_end_id("e99999003202611200753a1B2c3D4e5F")
    assert not identifiers.is_return_id("d99999003202611200753a1B2c3D4e5F")


def test_a_txid_has_no_other_characters() -> None:
    assert not identifiers.is_txid("a" * 31 + "-")
    assert not identifiers.is_txid("a" * 31 + "\u00e9")
    assert not identifiers.is_txid("a" * 31 + "\n")


LAST = Cursor(created_at=datetime(2026, 7, 1, 12, 0, 0, 123456, UTC), id=9, position=10, total_count=25)
LISTED = b'["charges",7,null,{"status":"PENDING"}]'
CURSOR = "AQAGVYtuVLJAAAAAAAAAAAkAAAAAAAAACgAAAAAAAAAZ"  # the beginning of version 1, without the check digits


def test_a_cursor_of_version_1_is_these_octets() -> None:
    text = write_cursor(LAST, LISTED)
    assert text == CURSOR + "Q30vAydd"
    assert read_cursor(text, LISTED) == LAST


@given(
    st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 30)),  # noqa: DTZ001  given its zone below
    *[st.integers(0, 2**53 - 1)] * 3,
    st.binary(),
)
def test_a_cursor_comes_back_as_it_was(at: datetime, last_id: int, position: int, total: int, listed: bytes) -> None:
    written = Cursor(created_at=at.replace(tzinfo=UTC), id=last_id, position=position, total_count=total)
    assert read_cursor(write_cursor(written, listed), listed) == written


@given(st.integers(0, 51), st.characters())
def test_a_cursor_with_any_other_letter_is_refused(place: int, letter: str) -> None:
    text = write_cursor(LAST, LISTED)
    changed = text[:place] + letter + text[place + 1 :]
    if changed != text:
        with pytest.raises(errors.BadRequest, match="after: must be a cursor"):
            read_cursor(changed, LISTED)


@pytest.mark.parametrize("garbled", ["", "x", "====", "A" * 51, "A" * 52, "A" * 5000, "é" * 52, CURSOR, "\0"])
def test_what_is_no_cursor_is_refused(garbled: str) -> None:
    with pytest.raises(errors.BadRequest, match="after: must be a cursor"):
        read_cursor(garbled, LISTED)


@pytest.mark.parametrize(
    "numbers",
    [
        (2, 1, 1, 1, 1), (1, 2**63, 1, 1, 1), (1, 2**60, 1, 1, 1), (1, 1, 2**63, 1, 1), (1, 1, 1, 2**53, 1),
        (1, 1, 1, 1, 2**64 - 1),
    ],
)  # fmt: skip
def test_a_made_up_cursor_holds_nothing_that_would_break_later(numbers: tuple[int, ...]) -> None:
    octets = listing._OF_LISTS._numbers.pack(*numbers)
    text = base64.urlsafe_b64encode(octets + listing._OF_LISTS._check(octets, LISTED)).decode()
    with pytest.raises(errors.BadRequest, match="after: must be a cursor"):
        read_cursor(text, LISTED)


POLICY = RatePolicy(name="tries", tokens_max=10, refill_per_s=0.5)


def test_a_bucket_is_full_at_first_and_full_again_after_its_window() -> None:
    bucket = TokenBucket(POLICY, 100.0)
    assert (bucket.read(100.0), POLICY.window_s) == (10, 20)
    bucket.spend(10)
    assert (bucket.read(104.0), bucket.read(120.0), bucket.read(200.0)) == (2, 10, 10)


def test_it_may_be_overdrawn_and_says_when_something_is_there_again() -> None:
    bucket = TokenBucket(POLICY, 0.0)
    bucket.spend(15)
    assert bucket.read(0.0) == -5
    assert bucket.seconds_until(1) == 12
    assert bucket.read(12.0) == 1


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 50), st.floats(0, 50))))
def test_it_never_holds_more_nor_owes_more_than_it_may(steps: list[tuple[float, float, float]]) -> None:
    bucket, now_s = TokenBucket(POLICY, 0.0), 0.0
    for passed_s, spent, added in steps:
        now_s += passed_s
        bucket.spend(spent)
        assert -10 <= bucket.read(now_s) <= 10
        bucket.add(added)
        assert -10 <= bucket.read(now_s) <= 10


def test_a_bucket_is_overdrawn_as_far_as_its_policy_says() -> None:
    for overdraft_max, expected in ((None, -10), (25, -25), (0, 0)):
        bucket = TokenBucket(RatePolicy(name="look-ups", tokens_max=10, refill_per_s=1, overdraft_max=overdraft_max), now_s=0.0)
        bucket.spend(100)
        assert bucket.read(0.0) == expected


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("7,50", 750, 750),
        ("=7,50", 750, 750),
        (">=100", 10000, None),
        ("> 100,00", 10001, None),
        ("<5", None, 499),
        ("<= R$ 1.234,56", None, 123456),
        ("10..20", 1000, 2000),
        ("0,01 .. 9.999.999.999,99", 1, 999_999_999_999),
        ("12.34", 1234, 1234),
        ("1,2", 120, 120),
        ("R$\u00a01.000.040,84", 100_004_084, 100_004_084),
    ],
)
def test_an_amount_is_read_with_its_operator(text: str, low: int | None, high: int | None) -> None:
    assert read_amounts(text) == (low, high)


@pytest.mark.parametrize("text", ["", "abc", ">", "1,234", "20..10", "..", "1..", "-5", "99999999999", "1e3", "٣", ">>5"])
def test_an_amount_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(errors.BadRequest, match=r"^amount: "):
        read_amounts(text)


def test_one_amount_is_read_and_a_range_is_none() -> None:
    assert [read_one_amount("amount", text) for text in ("7,50", "R$ 1.234,56", " 10")] == [750, 123_456, 1_000]
    for text in ("", "dez", ">=1,00", "1..1", "-5", "99999999999"):
        with pytest.raises(errors.BadRequest, match=r"^amount: must be one amount, such as 100 or 100,00$"):
            read_one_amount("amount", text)


# Sao Paulo is three hours behind UTC.
DAY = datetime(2026, 11, 3, 3, tzinfo=UTC)
END = datetime(2026, 11, 4, 2, 59, 59, 999_999, tzinfo=UTC)
# Still the third of November there.
NOW = datetime(2026, 11, 4, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("2026-11-03", DAY, END),
        (">=2026-11-03", DAY, None),
        (">2026-11-03", END.replace(microsecond=0, second=0, minute=0, hour=3), None),
        ("<=2026-11-03", None, END),
        ("2026-11-03..2026-11-03", DAY, END),
        ("2026-11-03 00:00..2026-11-03T12:30", DAY, datetime(2026, 11, 3, 15, 30, 59, 999_999, tzinfo=UTC)),
        (">=2026-11-03T12:00:00Z", datetime(2026, 11, 3, 12, tzinfo=UTC), None),
        ("today", DAY, END),
        ("ontem", DAY - timedelta(days=1), END - timedelta(days=1)),
        ("7 days", DAY - timedelta(days=6), END),
        ("este mês", DAY - timedelta(days=2), END),
    ],
)
def test_an_instant_is_of_sao_paulo_with_its_operator(text: str, low: datetime | None, high: datetime | None) -> None:
    assert read_instants(text, NOW) == (low, high)


@pytest.mark.parametrize("text", ["", "tomorrow", "2026-13-01", "2026-02-30", "0001-01-01", "2026-11-04..2026-11-03"])
def test_an_instant_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(errors.BadRequest, match=r"^instant: "):
        read_instants(text, NOW)


@pytest.mark.parametrize(("day", "hours"), [("2018-12-21", 24), ("2018-11-04", 23), ("2018-02-17", 25), ("2026-12-21", 24)])
def test_a_day_is_as_long_as_it_was_in_sao_paulo(day: str, hours: int) -> None:
    low, high = read_instants(day, NOW)
    assert low is not None
    assert high is not None
    assert high - low == timedelta(hours=hours) - timedelta(microseconds=1)


def test_the_days_of_a_summer_before_2019_begin_an_hour_earlier() -> None:
    assert read_instants(">=2018-12-21", NOW)[0] == datetime(2018, 12, 21, 2, tzinfo=UTC)
    assert read_instants(">=2026-12-21", NOW)[0] == datetime(2026, 12, 21, 3, tzinfo=UTC)
