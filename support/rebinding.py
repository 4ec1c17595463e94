"""Names that move while we look, through the system's own resolver: a program for a network of its own.

It is started by ``tests/adapters/test_rebinding.py`` under ``unshare``: with a loopback that also has a public address, and a
``resolv.conf`` that names our name server. It prints what happened as JSON.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pixconnect.adapters.name_lookup import DnsLookup, NameLookups
from pixconnect.adapters.outgoing_http import ExchangeLimits, OutgoingHttp, WebhookSender
from pixconnect.domain.frame import errors
from support.dns_server import DnsServer, open_dns_server
from support.tls import make_authority
from support.webhooks import Receiver

NAME = "shop.example"
PUBLIC = "93.184.216.34"
INNER = ("127.0.0.1", "::1", "10.0.0.1")
PORT = 8443
ATTEMPTS_COUNT = 40


def make_network(folder: Path) -> None:
    """Loopback with our addresses, and names from our name server; ends as the namespaces do."""
    resolv_conf = folder / "resolv.conf"
    resolv_conf.write_text("nameserver 127.0.0.1\noptions timeout:30 attempts:1\n")
    subprocess.run(["mount", "--bind", str(resolv_conf), "/etc/resolv.conf"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for address in (PUBLIC, "10.0.0.1"):
        subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)


class Scene:
    """A sender as in live mode, the receiver that it may reach, and those that it must not."""

    def __init__(self, dns: DnsServer, sender: WebhookSender, outside: Receiver, inside: Sequence[Receiver]) -> None:
        self._dns = dns
        self._sender = sender
        self._outside = outside
        self._inside = inside
        self._url = f"https://{NAME}:{PORT}/hook"

    async def act(
        self, *answers: Sequence[str], attempts_count: int = 1, is_checked: bool = False
    ) -> dict[str, object]:
        """Let the name lead here and there, and post to it."""
        self._dns.say(NAME, *answers)
        self._outside.received.clear()
        checked = await self._check() if is_checked else None
        exchanges = [await self._sender.post(self._url, [], b"{}") for _ in range(attempts_count)]
        return {
            "checked": checked,
            "errors": sorted({exchange.error or "" for exchange in exchanges}),
            "statuses": [exchange.status_code for exchange in exchanges],
            "asked": self._dns.asked[NAME],
            "outside": len(self._outside.received),
            "inside": sum(receiver.connections_count for receiver in self._inside),
        }

    async def _check(self) -> str:
        try:
            await self._sender.check_url(self._url)
        except errors.InvalidWebhookUrl as refused:
            return refused.message
        return "may be used"


async def play(folder: Path) -> dict[str, dict[str, object]]:
    authority = make_authority(folder)
    outside, inside = Receiver(), [Receiver() for _ in INNER]
    await outside.start(authority.server_context(NAME), PUBLIC, PORT)
    for receiver, address in zip(inside, INNER, strict=True):
        await receiver.start(None, address, PORT)
    lookups = NameLookups(DnsLookup(), lookup_s=60)
    http = OutgoingHttp(ExchangeLimits(connect_s=60, exchange_s=60), lookups, authority.client_context())
    async with open_dns_server(53) as dns:
        scene = Scene(dns, WebhookSender(http, allows_loopback=False), outside, inside)
        played = {
            "stays": await scene.act([PUBLIC], is_checked=True),
            "moves after the check": await scene.act([PUBLIC], ["127.0.0.1"], is_checked=True),
            "moves at every look": await scene.act(
                *([[PUBLIC], ["127.0.0.1"], [PUBLIC], ["::1"], [PUBLIC], ["10.0.0.1"]] * ATTEMPTS_COUNT),
                attempts_count=ATTEMPTS_COUNT,
            ),
            "leads to both": await scene.act([PUBLIC, "10.0.0.1"], is_checked=True),
            "leads inside by IPv6": await scene.act([PUBLIC, "::1"], is_checked=True),
            "leads inside in disguise": await scene.act(["::ffff:127.0.0.1"], is_checked=True),
            "leads nowhere": await scene.act([], is_checked=True),
        }
    await http.close()
    for receiver in (outside, *inside):
        await receiver.stop()
    return played


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        make_network(Path(made))
        json.dump(asyncio.run(play(Path(made))), sys.stdout)
