"""``pixconnect operator endpoint``: an operator sees what does not work, and lets it go on."""

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
    assert pixconnect.run("operator", "endpoint", "list", "--status", "disabled").stdout == "there is none\n"
    # Done twice, it is done once.
    pixconnect.json("operator", "endpoint", "resume", "5")
    verbs = [entry["verb"] for entry in pixconnect.json("audit", "list")["entries"]]
    assert verbs == ["operator endpoint resume", "holder create"]


def test_what_its_owner_switched_off_is_the_owners_to_switch_on(pixconnect: CommandLine, database: Addresses) -> None:
    off = "update pixconnect.webhook_endpoint set status = 'inactive', status_reason = null"
    postgres.execute(database.owner_url, off)
    assert "--endpoint-id: its owner has made it inactive" in pixconnect.refusal("operator", "endpoint", "resume", "5")
    assert "--endpoint-id: there is no endpoint 6" in pixconnect.refusal("operator", "endpoint", "resume", "6")
