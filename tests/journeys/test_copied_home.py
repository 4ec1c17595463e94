"""A home, or its data, is restored from a copy: nothing is assigned twice, and what can be detected is reported."""

import json
import shutil
import subprocess
from base64 import urlsafe_b64decode
from pathlib import Path

import pytest
from msgspec import Struct

from pixconnect_client import Client, EventFeed
from support.installation import Installation, running
from support.waiting import wait_until

pytestmark = [pytest.mark.journey, pytest.mark.long]


class Given(Struct, frozen=True, kw_only=True):
    charge_id: int
    event_id: int
    cursor: bytes  # in its encoded form: its position in the feed comes first, so later ones are greater


def charge(installation: Installation, amount_cents: int) -> Given:
    found = installation.sandbox
    with Client(installation.base_url, found["client_id"], found["client_secret"]) as client:
        before = client.events.feed(start="now")
        made = client.charges.create(amount=amount_cents, key=found["pix_keys"][0])
        pages: list[EventFeed] = []

        def is_told() -> bool:
            # A worker assigns its place in the feed later.
            pages.append(client.events.feed(before.cursor, wait_s=10))
            return bool(pages[-1].events)

        wait_until(is_told, "the feed tells of the charge")
        page = pages[-1]
        return Given(charge_id=made.id, event_id=page.events[0].id, cursor=urlsafe_b64decode(page.cursor))


def _data(home: Path) -> Path:
    """The folder of its tables, which is outside if PostgreSQL's user could not enter it."""
    return home / json.loads((home / "postgres.json").read_text())["folder"]


def _copy(folder: Path, to: Path) -> None:
    subprocess.run(["cp", "-a", folder, to], check=True)


def _put_back(copy: Path, folder: Path) -> None:
    shutil.rmtree(folder)
    _copy(copy, folder)


def wait_until_health_says(installation: Installation, words: str) -> None:
    """The warning about forgotten rows; the answer is cached for a moment, and a busy machine may time out."""

    def is_said() -> bool:
        found = installation.health_report().get("checks", {}).get("database_loss", {})
        return words in (found.get("error") or found.get("status", ""))

    wait_until(is_said, f"health says {words}")


def test_a_copied_home_that_is_put_back_gives_nothing_out_twice(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with running(home) as installation:
        first = charge(installation, 100)
    folders = {home: tmp_path / "copy"}
    if home not in _data(home).parents:
        folders[_data(home)] = tmp_path / "data"
    for folder, to in folders.items():
        _copy(folder, to)
    with running(home) as installation:
        forgotten = charge(installation, 111)
        assert forgotten.charge_id > first.charge_id
    for folder, to in folders.items():
        _put_back(to, folder)
    with running(home) as installation:
        again = charge(installation, 222)
        # All of it was copied, so the loss cannot be detected.
        wait_until_health_says(installation, "healthy")
    assert again.charge_id > forgotten.charge_id
    assert again.event_id > forgotten.event_id
    assert again.cursor > forgotten.cursor
