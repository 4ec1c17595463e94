"""``pixconnect operator endpoint``: an operator sees failing endpoints, and enables them again."""

import pytest

from support import postgres
from support.command_line import DISABLED_ENDPOINT, CommandLine
from support.postgres import Addresses


@pytest.fixture
def pixconnect(pixconnect: CommandLine, database: Addresses) -> CommandLine:
    """With a holder whose endpoint is disabled."""
    pixconnect.create_holder()
    postgres.execute(database.owner_url, DISABLED_ENDPOINT)
    return pixconnect


def test_a_disabled_endpoint_is_listed_and_resumed(pixconnect: CommandLine) -> None:
    (listed,) = pixconnect.json("operator", "endpoint", "list", "--status", "disabled")["endpoints"]
    assert (listed["id"], listed["holder_id"], listed["status_reason"]) == (5, 1, "failed for five days")
    assert "secret" not in listed
    assert pixconnect.json("operator", "endpoint", "list", "--holder-id", "2") == {"endpoints": []}
    resumed = pixconnect.json("operator", "endpoint", "resume", "5")
    assert (resumed["status"], "status_reason" in resumed, "first_failure_at" in resumed) == ("active", False, False)
    assert pixconnect.run("operator", "endpoint", "list", "--status", "disabled").stdout == "endpoints: none\n"
    again = pixconnect.run("operator", "endpoint", "resume", "5")
    assert again.stderr == "the endpoint 5 was active already; its pending deliveries are due now\n"
    verbs = [entry["verb"] for entry in pixconnect.json("audit", "list")["entries"]]
    assert verbs == [*2 * ["operator endpoint resume"], "holder create"]


def test_what_its_owner_switched_off_is_the_owners_to_switch_on(pixconnect: CommandLine, database: Addresses) -> None:
    off = "update pixconnect.webhook_endpoint set status = 'inactive', status_reason = null"
    postgres.execute(database.owner_url, off)
    assert "ENDPOINT-ID: its owner has made it inactive" in pixconnect.refusal("operator", "endpoint", "resume", "5")
    assert "ENDPOINT-ID: there is no endpoint 6" in pixconnect.refusal("operator", "endpoint", "resume", "6")


DELIVERIES = """
    set search_path = pixconnect;
    insert into event (id, holder_id, name, resource, resource_id, slot, body, created_at)
    select n, 1, 'qrcode.approved', 'charge', n, 0, '{}', timestamptz '2026-06-30 12:00Z' + n * interval '1 day'
    from generate_series(1, 4) as n;
    insert into delivery (id, holder_id, endpoint_id, event_id, resource, resource_id, slot, status, attempts_count,
        created_at, modified_at)
    select id, 1, 5, id, 'charge', id, 0, case id when 4 then 'delivered' else 'failed' end, 1, created_at, created_at
        from event;
    select setval('delivery_id', 4);
"""


def test_a_failing_endpoint_is_listed_with_its_last_error(pixconnect: CommandLine, database: Addresses) -> None:
    failing = ("operator", "endpoint", "list", "--status", "failing")
    assert pixconnect.json(*failing) == {"endpoints": []}, "it is disabled"
    active = "update webhook_endpoint set status = 'active', status_reason = null;"
    due = "update delivery set status = 'pending', due_at = now(), attempts_count = id - 1 where id < 4;"
    attempts = """
        insert into delivery_attempt (delivery_id, number, started_at, status_code, duration_us, response, error)
        values (2, 1, '2026-07-02 13:00Z', 503, 0, '', 'old'), (3, 1, '2026-07-03 12:00Z', 503, 0, '', 'older'),
            (3, 2, '2026-07-03 13:00Z', null, 0, '', 'the connection was refused')
    """
    postgres.execute(database.owner_url, DELIVERIES + active + due + attempts)
    (listed,) = pixconnect.json(*failing)["endpoints"]
    assert (listed["url"], listed["last_error"]) == ("https://shop.example/pix", "the connection was refused")
    assert "first_failure_at" in listed
    assert pixconnect.json(*failing, "--holder-id", "2") == {"endpoints": []}


def test_an_outage_is_replayed_to_an_endpoint(pixconnect: CommandLine, database: Addresses) -> None:
    postgres.execute(database.owner_url, DELIVERIES)
    replay = ("operator", "endpoint", "replay", "5")
    # Both days are whole.
    assert pixconnect.json(*replay, "--since", "2026-07-02", "--until", "2026-07-03") == {"replayed": 2}
    assert pixconnect.json(*replay, "--since", "2026-07-01") == {"replayed": 2}, "what waits already is left out"
    (newest, *_) = pixconnect.json("audit", "list")["entries"]
    assert (newest["verb"], newest["subject"]) == ("operator endpoint replay", "endpoint 5")
    assert "--since: must be a day" in pixconnect.refusal(*replay, "--since", "yesterday")
    assert "--since: must not be after" in pixconnect.refusal(*replay, "--since", "2026-07-02", "--until", "2026-07-01")
    refusal = pixconnect.refusal("operator", "endpoint", "replay", "6", "--since", "2026-07-02")
    assert "ENDPOINT-ID: there is no endpoint 6" in refusal
