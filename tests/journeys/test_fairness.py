"""One holder sends the worst requests of each operation while nine others send few: none of the nine fails."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.greedy_holder import Answered, Orders, ask_calmly, greedy, worst_of
from support.installation import running
from support.whole_installation import Account, WholeInstallation

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("fairness")]

OTHERS_COUNT = 9
FUNDS_CENTS = 10_000_000
SECONDS_EACH = 2.0
EVENTS_COUNT = 1_000
TRIES_MAX = 6  # other load may delay the database for a second; unfairness would be there each time


@pytest.fixture
def service(home_folder: Path) -> Iterator[WholeInstallation]:
    with running(home_folder) as installation, asyncio.Runner() as runner:
        whole = WholeInstallation(installation, runner)
        try:
            yield whole
        finally:
            whole.stop()
            whole.close()


def token_of(service: WholeInstallation, account: Account) -> str:
    return service.log_in(account)


def test_none_of_nine_holders_fails_whatever_the_tenth_does(service: WholeInstallation) -> None:
    base_url = service.installation.base_url
    tenth, *others = [service.open_account(FUNDS_CENTS) for _ in range(1 + OTHERS_COUNT)]
    for number in range(EVENTS_COUNT):
        body = {"amount": 1, "key": tenth.key, "payer": {"name": "\u0001" * 200, "tax_id": "52998224725"}}
        assert service.insist(tenth, "POST", "/v1/connect/charge", body | {"external_id": f"n{number}"}).status == 200
    hook = {"url": "http://127.0.0.1:9/", "secret": "s" * 16, "event_types": ["qrcode.pending"]}
    endpoint_id = service.insist(tenth, "POST", "/v1/webhook/endpoints", hook).data["id"]
    service.insist(tenth, "PATCH", f"/v1/webhook/endpoints/{endpoint_id}", {"status": "inactive"})
    callers = [(token_of(service, account), account.key) for account in others]
    token = token_of(service, tenth)
    for name, (connections, asked) in worst_of(tenth.key, endpoint_id).items():
        orders = Orders(base_url=base_url, token=token, asked=asked, connections=connections)
        failed: list[Answered] = []
        for _ in range(TRIES_MAX):
            with greedy(orders) as told:
                answered = asyncio.run(ask_calmly(base_url, callers, SECONDS_EACH))
            assert told.count > 0, name
            assert set(told.statuses) <= {200, 401, 422, 429, 503}, (name, told)
            failed = [each for each in answered if each.status != 200]
            if not failed:
                break
        assert not failed, (name, [(each.path, each.status, each.body) for each in failed[:3]])
