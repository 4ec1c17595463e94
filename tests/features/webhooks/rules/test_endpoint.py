"""An endpoint when it is created, and after changes by its owner."""

from datetime import timedelta

from msgspec import structs

from pixconnect.features.webhooks.rules.endpoint import activate, deactivate, replace_secret
from support.records import NOW, make_endpoint


def test_one_that_was_disabled_starts_anew_when_it_is_activated() -> None:
    disabled = structs.replace(
        make_endpoint(), status="disabled", status_reason="failed for five days", first_failure_at=NOW - timedelta(days=5)
    )
    assert activate(disabled) == make_endpoint()
    assert activate(make_endpoint()) == make_endpoint()


def test_one_that_its_owner_stops_forgets_its_failures_too() -> None:
    failing = structs.replace(make_endpoint(), first_failure_at=NOW)
    assert deactivate(failing) == structs.replace(make_endpoint(), status="inactive")


def test_the_previous_secret_signs_for_a_day_unless_nobody_can_read_it() -> None:
    replaced = replace_secret(make_endpoint(), b"second", NOW)
    assert (replaced.secret_sealed, replaced.previous_secret_sealed) == (b"second", b"first")
    assert replaced.previous_secret_until == NOW + timedelta(days=1)
    alone = replace_secret(replaced, b"third", NOW, keeps_previous=False)
    assert (alone.secret_sealed, alone.previous_secret_sealed, alone.previous_secret_until) == (b"third", None, None)
