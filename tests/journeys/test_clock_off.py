"""A machine whose clock is an hour off, either way: it writes nothing, it still reads, and nobody's money is touched."""

import time
from collections.abc import Callable, Iterator

import pytest

from support.waiting import PATIENCE_S
from support.whole_installation import Account, Answer, WholeInstallation, open_whole_installation

pytestmark = [pytest.mark.journey, pytest.mark.long]
OFF_S = [3600, -3600]
FUNDS_CENTS = 1_000


@pytest.fixture(scope="module")
def service() -> Iterator[WholeInstallation]:
    # By a clock that is off a transfer is too late to be handed over, and by the right one never, however long a start takes.
    with open_whole_installation(policy={"handover_timeout_s": 1800}) as opened:
        yield opened


def ask_until(ask: Callable[[], Answer | None], is_it: Callable[[Answer], bool]) -> Answer:
    deadline_s = time.monotonic() + PATIENCE_S
    while (answer := ask()) is None or not is_it(answer):
        assert time.monotonic() < deadline_s, answer
        time.sleep(0.1)
    return answer


def transfer(service: WholeInstallation, account: Account, name: str) -> Answer | None:
    body = {"amount": 100, "key": "settle@sandbox.pix.example", "key_type": "EMAIL", "external_id": name}
    return service.ask(account, "POST", "/v1/connect/transfer/key", body)


def read_status(service: WholeInstallation, account: Account, name: str) -> str:
    path = f"/v1/connect/transfer/external-id/{name}"
    return service.insist(account, "GET", path).data["status"]


@pytest.mark.parametrize("seconds", OFF_S)
def test_an_api_process_whose_clock_is_off_writes_nothing_and_reads(service: WholeInstallation, seconds: int) -> None:
    account = service.open_account(FUNDS_CENTS)
    ask_until(lambda: transfer(service, account, f"before {seconds}"), lambda answer: answer.status == 200)
    service.settle([account])
    service.set_clock_off("serve", seconds)
    for _ in range(3):
        refused = ask_until(lambda: transfer(service, account, f"off {seconds}"), lambda answer: answer.status < 600)
        assert (refused.status, refused.code) == (503, "SERVICE_UNAVAILABLE")
        assert "clock" in refused.body["error"]["message"]
    assert read_status(service, account, f"before {seconds}") == "CONFIRMED"
    balance = service.insist(account, "GET", "/v1/connect/ledger/balance").data
    assert balance["available_funds"] == balance["current_funds"] == FUNDS_CENTS - 100
    # On a busy machine any check may once get no answer in its time, which is another finding.
    ask_until(
        lambda: service.ask(account, "GET", "/v1/connect/health"),
        lambda answer: (
            answer.status == 200
            and answer.data["status"] == "degraded"
            and "clock" in answer.data["checks"]["clock"].get("error", "")
        ),
    )
    service.set_clock_off("serve", 0)
    ask_until(lambda: transfer(service, account, f"off {seconds}"), lambda answer: answer.status == 200)
    service.settle([account])
    assert read_status(service, account, f"off {seconds}") == "CONFIRMED"
    service.check_books()


@pytest.mark.parametrize("seconds", OFF_S)
def test_a_worker_whose_clock_is_off_ends_nothing(service: WholeInstallation, seconds: int) -> None:
    account = service.open_account(FUNDS_CENTS)
    service.set_clock_off("work", seconds)
    name = f"worked {seconds}"
    ask_until(lambda: transfer(service, account, name), lambda answer: answer.status == 200)
    charge = {"amount": 100, "key": account.key, "external_id": name}
    service.insist(account, "POST", "/v1/connect/charge", charge)
    time.sleep(3)  # some looks of the worker: by its own clock all of this is overdue, or from the future
    assert read_status(service, account, name) == "PROCESSING"
    assert service.insist(account, "GET", f"/v1/connect/charge/external-id/{name}").data["status"] == "PENDING"
    service.set_clock_off("work", 0)
    ask_until(
        lambda: service.ask(account, "GET", f"/v1/connect/transfer/external-id/{name}"),
        lambda answer: answer.status == 200 and answer.data["status"] == "CONFIRMED",
    )
    service.check_books()
