"""An endpoint when it is created, and after changes by its owner."""

from datetime import UTC, datetime, timedelta

from msgspec import structs

from pixconnect.features.webhooks.rules.endpoint import Endpoint, activate, deactivate, open_endpoint, replace_secret

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)


def _opened() -> Endpoint:
    return open_endpoint(5, 1, "https://shop.example/hook", ("qrcode.approved",), b"first", NOW)


def test_a_new_endpoint_is_active_and_has_failed_nothing() -> None:
    endpoint = _opened()
    assert (endpoint.status, endpoint.status_reason, endpoint.first_failure_at) == ("active", None, None)
    assert (endpoint.previous_secret_sealed, endpoint.previous_secret_until) == (None, None)
    assert (endpoint.created_at, endpoint.modified_at, endpoint.pix_key) == (NOW, NOW, None)


def test_one_that_was_disabled_starts_anew_when_it_is_activated() -> None:
    disabled = structs.replace(
        _opened(), status="disabled", status_reason="failed for five days", first_failure_at=NOW - timedelta(days=5)
    )
    assert activate(disabled) == _opened()
    assert activate(_opened()) == _opened()


def test_one_that_its_owner_stops_forgets_its_failures_too() -> None:
    failing = structs.replace(_opened(), first_failure_at=NOW)
    assert deactivate(failing) == structs.replace(_opened(), status="inactive")


def test_the_previous_secret_signs_for_a_day_unless_nobody_can_read_it() -> None:
    replaced = replace_secret(_opened(), b"second", NOW)
    assert (replaced.secret_sealed, replaced.previous_secret_sealed) == (b"second", b"first")
    assert replaced.previous_secret_until == NOW + timedelta(days=1)
    alone = replace_secret(replaced, b"third", NOW, keeps_previous=False)
    assert (alone.secret_sealed, alone.previous_secret_sealed, alone.previous_secret_until) == (b"third", None, None)
