"""Rules of webhooks: schedule, Retry-After, the effect of an attempt on its delivery and its endpoint."""

import base64
import email.utils
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pixconnect.features.webhooks.rules import delivery as delivery_rules
from pixconnect.features.webhooks.rules import endpoint as endpoint_rules
from pixconnect.features.webhooks.rules.delivery import Conclusion
from pixconnect.kernel.rules.event import EVENT_NAMES
from pixconnect.platform.base import errors
from pixconnect.platform.base.webhook_exchange import WebhookExchange
from pixconnect.platform.config import SettingsError
from pixconnect.platform.environment import read_settings
from support.records import make_delivery, make_endpoint

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
WAITS_S = [5, 30, 120, 300, 900, 1800, 3600, 7200, 14400, 28800, 28800, 43200, 43200, 86400]


def make_exchange(status_code: int | None = 200, **changes: Any) -> WebhookExchange:
    """A successful answer."""
    error = None if status_code else "the connection was refused"
    fields = dict[str, Any](status_code=status_code, retry_after=None, response=b"ok", error=error, duration_us=1500)
    return WebhookExchange(**(fields | changes))


def conclude(exchange: WebhookExchange, chance: float = 0.0, **delivery: Any) -> Conclusion:
    return delivery_rules.conclude(make_delivery(**delivery), exchange, ended_at=NOW, real_now=NOW, chance=chance)


def test_there_are_fifteen_attempts_over_three_days_and_more() -> None:
    waits = [delivery_rules.retry_wait(failures_count, None, 0.0) for failures_count in range(1, 15)]
    assert waits == [timedelta(seconds=wait_s) for wait_s in WAITS_S]
    assert delivery_rules.retry_wait(15, None, 0.0) is None
    assert 2.99 * 86_400 < sum(WAITS_S) < 3 * 86_400 < sum(WAITS_S) * 1.2


@pytest.mark.parametrize("failures_count", range(1, 15))
def test_a_retry_is_up_to_a_fifth_later_and_never_earlier(failures_count: int) -> None:
    scheduled = WAITS_S[failures_count - 1]
    latest = delivery_rules.retry_wait(failures_count, None, 0.999999)
    assert latest is not None
    assert scheduled * 1.19 < latest.total_seconds() <= scheduled * 1.2


@pytest.mark.parametrize(("retry_after_s", "waited_s"), [(0, 5), (5, 5), (6, 6), (3600, 3600), (3601, 3600), (10**8, 3600)])
def test_the_larger_of_schedule_and_retry_after_is_waited_up_to_an_hour(retry_after_s: int, waited_s: int) -> None:
    assert delivery_rules.retry_wait(1, timedelta(seconds=retry_after_s), 0.0) == timedelta(seconds=waited_s)


def test_a_schedule_longer_than_an_hour_stands_whatever_is_asked() -> None:
    assert delivery_rules.retry_wait(14, timedelta(days=9), 0.0) == timedelta(hours=24)


@pytest.mark.parametrize(
    ("text", "waited_s"),
    [
        *((text, None) for text in (None, "", "soon", "-1", "1.5", "1e3", "٣", "Mon, 99 Foo 2026")),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", None),
        ("Mon, 01 Jan 2026 00:00:00 +99999999999999", None),
        ("Mon, 01 Jan 2026 99999999999999999999:00:00 GMT", None),
        ("120", 120),
        (" 120 ", 120),
        ("0", 0),
        ("9" * 400, 3600),
        ("Fri, 20 Nov 2026 12:01:00 GMT", 60),
        ("Fri, 20 Nov 2026 09:01:00 -0300", 60),
        ("Fri, 20 Nov 2020 12:01:00 GMT", 0),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_anything_else_is_absent(text: str | None, waited_s: int | None) -> None:
    expected = None if waited_s is None else timedelta(seconds=waited_s)
    assert delivery_rules.parse_retry_after(text, NOW) == expected


@pytest.mark.parametrize("status_code", [200, 201, 299, 199, 300, 302, 400, 404, 429, 500, 503, 999])
def test_any_2xx_delivers_and_any_other_answer_fails_and_says_so(status_code: int) -> None:
    conclusion = conclude(make_exchange(status_code))
    assert conclusion.attempt.number == 1
    if 200 <= status_code <= 299:
        assert (conclusion.status, conclusion.due_at, conclusion.attempt.error) == ("delivered", None, None)
    else:
        assert (conclusion.status, conclusion.due_at) == ("pending", NOW + timedelta(seconds=5))
        assert (conclusion.attempt.error, conclusion.failures_count) == (f"the receiver answered {status_code}", 1)


def test_a_good_status_whose_answer_broke_off_fails() -> None:
    conclusion = conclude(make_exchange(200, error="the connection was reset in the answer's body"))
    assert conclusion.status == "pending"
    assert conclusion.attempt.status_code == 200


def test_no_answer_fails_with_its_reason() -> None:
    conclusion = conclude(make_exchange(None), attempts_count=4, failures_count=4)
    assert conclusion.due_at == NOW + timedelta(minutes=15)
    assert conclusion.attempt.number == 5
    assert conclusion.attempt.error == "the connection was refused"


def test_the_fifteenth_failure_of_a_schedule_gives_up() -> None:
    conclusion = conclude(make_exchange(500), attempts_count=30, failures_count=14)
    assert (conclusion.status, conclusion.due_at) == ("failed", None)
    assert conclusion.attempt.number == 31


def test_410_keeps_the_delivery_pending_even_at_its_last_attempt() -> None:
    conclusion = conclude(make_exchange(410), attempts_count=14, failures_count=14)
    assert (conclusion.status, conclusion.is_gone, conclusion.failures_count) == ("pending", True, 14)


def test_a_kibibyte_of_an_answer_is_kept_as_text() -> None:
    attempt = conclude(make_exchange(200, response=b"\xff\x00ol\xc3\xa1" + b"x" * 5000)).attempt
    assert attempt.response.startswith("\ufffd\ufffdolá")
    assert len(attempt.response) <= 1024


def test_a_success_ends_the_failures_of_an_endpoint() -> None:
    endpoint = make_endpoint(first_failure_at=NOW - timedelta(days=4))
    assert delivery_rules.judge_endpoint(endpoint, [conclude(make_exchange())]).first_failure_at is None


def test_the_first_failure_is_remembered() -> None:
    once = delivery_rules.judge_endpoint(make_endpoint(), [conclude(make_exchange(500))])
    assert once.first_failure_at == NOW
    assert once.modified_at == make_endpoint().modified_at


@pytest.mark.parametrize(("days", "status"), [(4.99, "active"), (5, "disabled"), (6, "disabled")])
def test_five_days_of_failures_disable_an_endpoint(days: float, status: str) -> None:
    endpoint = make_endpoint(first_failure_at=NOW - timedelta(days=days))
    after = delivery_rules.judge_endpoint(endpoint, [conclude(make_exchange(500))])
    assert after.status == status
    assert (after.status_reason is None) == (status == "active")


def test_410_disables_an_endpoint_at_once() -> None:
    after = delivery_rules.judge_endpoint(make_endpoint(), [conclude(make_exchange(410))])
    assert (after.status, after.status_reason) == ("disabled", "the receiver answered 410 Gone")


def test_attempts_count_in_the_order_in_which_they_ended() -> None:
    endpoint = make_endpoint(first_failure_at=NOW - timedelta(days=6))
    good, bad = conclude(make_exchange()), conclude(make_exchange(500))
    assert delivery_rules.judge_endpoint(endpoint, [good, bad]).status == "active"
    assert delivery_rules.judge_endpoint(endpoint, [bad, good]).status == "disabled"


@pytest.mark.parametrize("status", ["inactive", "disabled"])
def test_a_late_answer_does_not_change_the_status_of_a_stopped_endpoint(status: str) -> None:
    reason = "the receiver answered 410 Gone" if status == "disabled" else None
    endpoint = make_endpoint(status=status, status_reason=reason)
    assert delivery_rules.judge_endpoint(endpoint, [conclude(make_exchange(410))]).status == status


def test_all_event_types_can_be_asked_for() -> None:
    assert set(endpoint_rules.parse_event_types(sorted(EVENT_NAMES))) == EVENT_NAMES


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "event_types: name at least one event type"),
        (["qrcode.paid"], 'event_types: there is no event type "qrcode.paid"'),
        (["qrcode.pending", "qrcode.pending"], "event_types: each event type may be named once"),
    ],
)
def test_event_types_that_cannot_be_are_refused(names: list[str], message: str) -> None:
    with pytest.raises(errors.BadRequest) as refused:
        endpoint_rules.parse_event_types(names)
    assert refused.value.message == message


def encoded(bytes_count: int) -> str:
    return "whsec_" + base64.b64encode(bytes(range(bytes_count))).decode()


@pytest.mark.parametrize(
    ("secret", "is_good"),
    [
        (encoded(7), False),
        (encoded(8), False),
        (encoded(23), False),
        (encoded(24), True),
        (encoded(32), True),
        (encoded(64), True),
        (encoded(65), False),
        (encoded(180), False),
        ("whsec_", False),
        ("whsec_not base64 at all, however long", False),
        (encoded(25).rstrip("="), False),
        ("whsec_" + base64.urlsafe_b64encode(b"\xff" * 24).decode(), False),
        ("whsec_ããããããããããããããããããããã", False),
        ("whsec-" + "a" * 10, True),
        ("WHSEC_" + "a" * 10, True),
        *[("s" * length, 16 <= length <= 256) for length in (15, 16, 256, 257)],
    ],
)
def test_a_secret_has_16_to_256_characters_and_an_encoded_one_a_key_of_24_to_64_bytes(secret: str, is_good: bool) -> None:
    if is_good:
        endpoint_rules.check_secret(secret)
    else:
        with pytest.raises(errors.BadRequest, match=r"^secret: ") as refused:
            endpoint_rules.check_secret(secret)
        assert secret not in refused.value.message or secret == "whsec_"


_DATE_WORDS = st.sampled_from(["Mon,", "Fri", "01", "Jan", "0", "9999", "00:00:00", "GMT", "-0000", ":", "+", ",", " ", "٣"])
_DATE_LIKE = st.lists(_DATE_WORDS | st.integers().map(str) | st.text(max_size=4), max_size=9).map(" ".join)


@settings(max_examples=500)
@given(st.text(max_size=60) | _DATE_LIKE | st.datetimes().map(email.utils.format_datetime))
def test_no_retry_after_that_a_receiver_can_send_breaks_the_judging_of_its_attempt(text: str) -> None:
    conclusion = conclude(make_exchange(503, retry_after=text))
    assert conclusion.due_at is not None
    assert timedelta(seconds=5) <= conclusion.due_at - NOW <= timedelta(hours=1)


def test_events_are_kept_for_longer_than_their_attempts_may_take() -> None:
    longest = [max(wait * (1 + delivery_rules.JITTER), delivery_rules.RETRY_AFTER_MAX) for wait in delivery_rules.RETRY_WAITS]
    took = sum(longest, (len(longest) + 1) * timedelta(seconds=15))
    assert read_settings({"PIXCONNECT_EVENT_RETENTION_DAYS": "4"}).event_retention_days == 4
    assert timedelta(days=3) < took <= timedelta(days=4)
    with pytest.raises(SettingsError, match="PIXCONNECT_EVENT_RETENTION_DAYS"):
        read_settings({"PIXCONNECT_EVENT_RETENTION_DAYS": "3"})
