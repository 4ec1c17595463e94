"""DNS rebinding: a name that resolves to an internal address after the check is never connected to."""

import pytest

from pixconnect.platform.adapters.name_lookup import DnsLookup
from pixconnect.platform.adapters.outgoing_http import WebhookSender
from pixconnect.platform.base import errors
from support.dns_server import open_dns_server
from support.webhooks import open_http, open_receiver

NAME, PUBLIC = "shop.example", "93.184.216.34"


@pytest.mark.parametrize("allows_loopback", [False, True])
@pytest.mark.parametrize("later", [["127.0.0.1"], ["::1"], ["::ffff:127.0.0.1"], [PUBLIC, "127.0.0.1"], []])
async def test_a_name_that_moves_is_resolved_once_per_attempt_and_refused(later: list[str], allows_loopback: bool) -> None:
    async with (
        open_dns_server() as dns,
        open_receiver() as receiver,
        open_http(DnsLookup(["127.0.0.1"], dns.port, hosts_path="/dev/null"), connect_s=30.0, exchange_s=30.0) as http,
    ):
        sender, url = WebhookSender(http, allows_loopback=allows_loopback), f"https://{NAME}:{receiver.port}/"
        dns.say(NAME, [PUBLIC], later)
        await sender.check_url(url)
        exchange = await sender.post(url, [], b"{}")
        assert exchange.status_code is None
        assert (dns.asked[NAME], receiver.connections_count) == (2, 0)
        with pytest.raises(errors.InvalidWebhookUrl):
            await sender.check_url(url)
