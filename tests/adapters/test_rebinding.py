"""Names that lead elsewhere the second time, by a name server of our own: nothing inside is ever connected to.

Through the system's resolver where Linux gives a test a network of its own (``unshare``), and everywhere else as far as that
goes without one: over UDP, with nothing that could leave the machine.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pixconnect.adapters.outgoing_http import WebhookSender
from pixconnect.domain.frame import errors
from support.dns_server import UdpLookup, open_dns_server
from support.rebinding import ATTEMPTS_COUNT, NAME, PUBLIC
from support.webhooks import open_http, open_receiver

ROOT = Path(__file__).resolve().parents[2]
OWN_NETWORK = ("unshare", "--map-root-user", "--user", "--net", "--mount")


@pytest.fixture(scope="module")
def played() -> dict[str, Any]:
    """What happened in a network of its own."""
    if not all(shutil.which(program) for program in ("unshare", "ip", "mount")):
        pytest.skip("this system has no unshare or no ip")
    if subprocess.run([*OWN_NETWORK, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this system gives nobody a network of their own")
    done = subprocess.run(
        [*OWN_NETWORK, sys.executable, "-m", "support.rebinding"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "http_proxy": "http://127.0.0.1:8443", "HTTPS_PROXY": "http://[::1]:8443"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_name_that_stays_is_posted_to_by_the_systems_resolver(played: dict[str, Any]) -> None:
    scene = played["stays"]
    assert (scene["checked"], scene["statuses"], scene["outside"], scene["asked"]) == ("may be used", [200], 1, 2)


def test_a_name_that_moved_inside_after_it_was_registered_is_refused(played: dict[str, Any]) -> None:
    scene = played["moves after the check"]
    assert scene["checked"] == "may be used"
    assert scene["errors"] == ["the URL leads to 127.0.0.1, which is not a public address"]


def test_a_name_that_moves_at_every_look_is_looked_at_once_an_attempt(played: dict[str, Any]) -> None:
    scene = played["moves at every look"]
    assert scene["asked"] == ATTEMPTS_COUNT
    assert scene["statuses"] == [200, None] * (ATTEMPTS_COUNT // 2)
    assert scene["outside"] == ATTEMPTS_COUNT // 2
    assert len(scene["errors"]) == 4, scene["errors"]  # none, and one for each address inside


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("leads to both", "leads to 10.0.0.1, which is not a public address"),
        ("leads inside by IPv6", "leads to ::1, which is not a public address"),
        ("leads inside in disguise", "leads to ::ffff:7f00:1, which is not a public address"),
        ("leads nowhere", "has a host without addresses"),
    ],
)
def test_a_name_with_a_private_address_is_refused_both_times(played: dict[str, Any], name: str, reason: str) -> None:
    scene = played[name]
    assert scene["checked"] == f"url: {reason}"
    assert scene["errors"] == [f"the URL {reason}"]
    assert (scene["statuses"], scene["outside"]) == ([None], 0)


def test_nothing_inside_was_ever_connected_to(played: dict[str, Any]) -> None:
    assert [scene["inside"] for scene in played.values()] == [0] * len(played)


@pytest.mark.parametrize("allows_loopback", [False, True])
@pytest.mark.parametrize("later", [["127.0.0.1"], ["::1"], ["::ffff:127.0.0.1"], [PUBLIC, "127.0.0.1"], []])
async def test_a_name_that_moves_is_not_followed_wherever_it_is_looked_up(
    later: list[str], allows_loopback: bool
) -> None:
    async with (
        open_dns_server() as dns,
        open_receiver() as receiver,
        open_http(UdpLookup(dns), connect_s=30.0, exchange_s=30.0) as http,
    ):
        sender, url = WebhookSender(http, allows_loopback=allows_loopback), f"https://{NAME}:{receiver.port}/"
        dns.say(NAME, [PUBLIC], later)
        await sender.check_url(url)
        exchange = await sender.post(url, [], b"{}")
        assert exchange.status_code is None
        assert (dns.asked[NAME], receiver.connections_count) == (2, 0)
        with pytest.raises(errors.InvalidWebhookUrl):
            await sender.check_url(url)
