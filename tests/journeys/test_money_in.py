"""Real money in: a live installation and the bank of its account, each whole, over TLS with client certificates."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec import Struct

from support.account_at_face import KEY, LIVE, open_account, run
from support.installation import PIXCONNECT, Installation, running
from support.ports import reserved_port
from support.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("money in")]

KINDS = ("efi", "inter", "sicoob", "sicredi")


class Both(Struct, frozen=True, kw_only=True):
    bank: Installation
    live: Installation
    url: str
    folder: Path


@contextmanager
def open_both(
    folder: Path, face: str, command: Sequence[str] = (*PIXCONNECT, "run"), *, has_callbacks: bool = False
) -> Iterator[Both]:
    with running(folder / "bank", FACES=f"{face}:0") as bank, reserved_port() as port:
        url = f"http://127.0.0.1:{port}"
        settings = LIVE | (dict(CALLBACK_BASE_URL=url) if has_callbacks else {})
        with Installation(folder / "live", command, PORT=str(port), **settings).wait_until_ready() as live:
            yield Both(bank=bank, live=live, url=url, folder=folder)


@pytest.fixture(scope="module", params=KINDS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Both]]:
    with open_both(tmp_path_factory.mktemp("money_in"), request.param, has_callbacks=True) as two:
        yield request.param, two


def kill_all(installation: Installation, part: str) -> bool:
    """Kill this part, once it runs after an earlier kill."""
    try:
        pids = installation.children(part)
    except AssertionError:
        return False
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return True


class Caller:
    """The holder's program, which repeats requests under the same name until they are answered."""

    def __init__(self, both: Both, *scopes: str, holder_id: str = "1") -> None:
        made = run(both.live, "client", "create", "--holder-id", holder_id, *_options("--scope", scopes), "--json")
        self._client = {key: made[key] for key in ("client_id", "client_secret")}
        self._url = both.url
        self._token = "none-yet"

    def insist(self, method: str, path: str, body: object = None, accept: tuple[int, ...] = (200,)) -> Any:
        until, said = time.monotonic() + PATIENCE_S, "nothing"
        while time.monotonic() < until:
            try:
                answer = httpx.request(
                    method, self._url + path, json=body, headers={"Authorization": f"Bearer {self._token}"}, timeout=20
                )
            except httpx.HTTPError:
                time.sleep(0.2)
                continue
            said = answer.text
            if answer.status_code == 401:
                self._login()
            elif answer.status_code in accept:
                said_whole = answer.json()
                # The central bank's API answers without an envelope.
                return said_whole.get("data", said_whole)
            else:
                assert answer.status_code in (503, 504), answer.text
                time.sleep(0.2)
        raise AssertionError(f"no answer to {method} {path} but {said}")

    def _login(self) -> None:
        try:
            answer = httpx.post(
                f"{self._url}/v1/iam/users/login", data={"grant_type": "client_credentials", **self._client}, timeout=20
            )
            self._token = answer.json()["data"]["access_token"]
        except (httpx.HTTPError, KeyError, ValueError):
            time.sleep(0.2)


def _options(name: str, values: tuple[str, ...]) -> list[str]:
    return [word for value in values for word in (name, value)]


def rehearse(two: Both) -> None:
    file = two.folder / "recording.json"
    done = subprocess.run(
        [*PIXCONNECT, "institution", "rehearse", "loja", "--record", str(file), "--json"],
        env=two.live.environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    differs = {step["step"] for step in json.loads(done.stdout)["steps"] if step["outcome"] == "differs"}
    # The bank's client has every right, which a credential for receiving should not have.
    # Sicoob requires the account number for a statement, and this file names none.
    assert differs <= {"permission send", "statement"}, done.stdout
    assert done.returncode == (5 if differs else 0), done.stderr
    assert KEY not in file.read_text()
    assert "12345678000195" not in file.read_text()


def test_what_is_paid_there_is_here_to_the_cent_whoever_dies(both: tuple[str, Both]) -> None:
    name, two = both
    # The central bank's API has no balance.
    stated = ("--opening-balance", "100000000") if name == "sicredi" else ()
    open_account(two.bank, two.live, two.folder, name, 100_000, "", *stated)
    opening = run(two.live, "institution", "show", "loja", "--json")
    assert opening["balance_here_cents"] == 100_000_000
    # Sicoob returns a statement by account number only, and this file names none.
    ways = dict(efi="own_file", inter="api", sicoob="file_by_hand", sicredi="file_by_hand")
    assert (opening["days_from"], opening["days_close_by_themselves"]) == (ways[name], name in {"efi", "inter"})
    assert opening.get("balance_there_cents") == (None if stated else 100_000_000)
    caller = Caller(two, "charge.read", "charge.write", "ledger.read")
    paid: dict[str, int] = {}
    killed = ("work", "serve", "serve", "work", "serve")
    for number, part in enumerate(killed):
        amount, external_id = 1000 + number, f"order-{number}"
        charge = caller.insist("POST", "/v1/connect/charge", {"amount": amount, "key": KEY, "external_id": external_id})
        again = caller.insist("POST", "/v1/connect/charge", {"amount": amount, "key": KEY, "external_id": external_id})
        assert again["id"] == charge["id"]
        wait_until(lambda part=part: kill_all(two.live, part), f"there is a {part} process to kill")
        run(two.bank, "pay", charge["emvqrcps"], "--json")
        paid[str(charge["id"])] = amount
    run(two.bank, "receive", "--amount", "77", "--json")

    wanted = 100_000_000 + sum(paid.values()) + 77

    def is_all_here() -> bool:
        return run(two.live, "institution", "show", "loja", "--json")["balance_here_cents"] == wanted

    wait_until(is_all_here, "what came in is in the books")
    assert run(two.bank, "balance", "--json")["current_funds"] == wanted
    assert caller.insist("GET", "/v1/connect/balance")["available_funds"] == wanted
    # The payments are known there under the charge's txid, and nothing is new.
    last = caller.insist("GET", f"/v1/connect/charge/{list(paid)[-1]}")
    (asked,) = run(two.live, "institution", "ask", "loja", last["transaction_identification"], "--json")["received"]
    assert (asked["recorded"], asked["amount_here_cents"]) == ("before", paid[str(last["id"])])
    registered = run(two.live, "institution", "webhook", "set", "loja", "--json")
    assert [each["whose"] for each in registered["webhooks"]] == ["ours"]
    assert run(two.live, "institution", "show", "loja", "--json")["webhook"] == "ours"
    run(two.live, "institution", "webhook", "restore", "loja")
    rehearse(two)
    for charge_id in paid:
        assert caller.insist("GET", f"/v1/connect/charge/{charge_id}")["status"] == "APPROVED"
    assert run(two.live, "report", "list", "--json")["reports"] == []
