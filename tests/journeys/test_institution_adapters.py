"""Accounts at the faces of a whole installation, over TLS with the certificates that it shows: opened, paid, returned."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pixconnect.adapters.institutions.opening import open_institution
from pixconnect.adapters.system import SystemClock, SystemEntropy
from pixconnect.domain.institutions.account import Credential
from pixconnect.domain.institutions.institution import ChargeTerms, Institution, ListedRefund, OpenedCharge, ReceivedPix
from support.account_there import make_account
from support.installation import PIXCONNECT, Installation, running
from support.waiting import PATIENCE_S

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("events")]

NAMES = ("efi", "inter", "sicoob", "woovi", "sicredi")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    faces = ",".join(f"{name}:0" for name in NAMES)
    with running(tmp_path_factory.mktemp("adapters") / "home", FACES=faces) as one:
        yield one


def run(service: Installation, *words: str) -> Any:
    done = subprocess.run(
        [*PIXCONNECT, *words], env=service.environment, capture_output=True, text=True, timeout=120, check=True
    )
    return json.loads(done.stdout)


def open_there(shown: dict[str, Any], name: str) -> Institution:
    files = ("certificate_file", "key_file") if "certificate_file" in shown else ()
    certificate, private_key = (Path(shown[file]).read_text() for file in files) if files else ("", "")
    credential = Credential(
        client_id=shown.get("client_id", ""),
        client_secret=shown["app_id"] if name == "woovi" else shown["client_secret"],
        certificate=certificate,
        private_key=private_key,
    )
    keys = tuple(shown["pix_keys"])
    authorities = Path(shown["authority_file"]).read_text()
    account = make_account(name, shown["url"], keys=keys, authorities=authorities)
    return open_institution(account, credential, SystemClock(), SystemEntropy())


async def list_received(institution: Institution, txid: str) -> list[ReceivedPix]:
    until = datetime.now(UTC) + timedelta(minutes=1)
    found = [item async for page in institution.list_received(until - timedelta(hours=1), until) for item in page]
    return [item for item in found if isinstance(item, ReceivedPix) and item.txid == txid]


@pytest.mark.parametrize("name", NAMES)
def test_a_charge_there_is_paid_and_returned(service: Installation, name: str) -> None:
    shown = run(service, "face", "show", name, "--json")
    txid = f"{name}fromanotherprogram000000000001"[:32]
    terms = ChargeTerms(txid=txid, key=shown["pix_keys"][0], amount_cents=1000, lifetime_s=3600)

    async def live() -> None:
        institution = open_there(shown, name)
        opened = await institution.open_charge(terms)
        assert isinstance(opened, OpenedCharge), opened
        paid = await asyncio.to_thread(run, service, "pay", opened.code or "", "--json")
        ends_at_s = time.monotonic() + PATIENCE_S
        # A payer does not wait for long: on a busy machine it has come in a little later.
        while not (found := await list_received(institution, txid)) and time.monotonic() < ends_at_s:  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.3)
        (pix,) = found
        assert (pix.end_to_end_id, pix.amount_cents) == (paid["end_to_end_id"], 1000)
        refund = await institution.refund(pix.end_to_end_id, "r1", 400)
        assert isinstance(refund, ListedRefund), refund
        while (asked := await institution.read_refund(pix.end_to_end_id, "r1")) and asked.status == "under_way":
            assert time.monotonic() < ends_at_s, asked
            await asyncio.sleep(0.3)
        assert asked is not None
        assert (asked.status, asked.amount_cents) == ("returned", 400)
        await institution.close()

    asyncio.run(live())
