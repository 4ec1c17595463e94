"""Which address a request is said to come from."""

from ipaddress import ip_network

import pytest
from msgspec import structs

from pixconnect.api.application import make_application
from pixconnect.api.frame.authentication import read_address, read_sender
from pixconnect.api.frame.services import Services
from pixconnect.domain.identity.access import Caller
from pixconnect.foundation.logging import AccessLog
from support.api import Api, UseCases

PROXIES = tuple(map(ip_network, ("127.0.0.1/32", "10.0.0.0/8", "fd00::/8")))
LONG = "2001:db8:1:2:3:4:5:6"


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "sender", "party"),
    [
        # Nobody before us is trusted: whatever the header says, it is the peer.
        ("192.0.2.7", "198.51.100.1", "192.0.2.7", "192.0.2.7"),
        (LONG, "198.51.100.1", LONG, "2001:db8:1:2::/64"),
        # What a trusted proxy has written, and only as far as trusted ones have.
        ("127.0.0.1", "", "127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "198.51.100.1", "198.51.100.1", "198.51.100.1"),
        ("127.0.0.1", "203.0.113.9, 198.51.100.1, 10.1.1.1", "198.51.100.1", "198.51.100.1"),
        ("::ffff:127.0.0.1", "198.51.100.1:4711", "198.51.100.1", "198.51.100.1"),
        ("fd00::1", f"[{LONG}]:443", LONG, "2001:db8:1:2::/64"),
        ("10.0.0.1", "2001:DB8:1:2:0:0:0:9%eth0", "2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("10.0.0.1", "::ffff:198.51.100.1", "198.51.100.1", "198.51.100.1"),
        # What is no address is not believed, and comes into no record.
        ("10.0.0.1", "\x1b[2J, unknown", "10.0.0.1", "10.0.0.1"),
        ("10.0.0.1", "fe80::1%\x1b[2J", "fe80::1", "fe80::/64"),
        ("10.0.0.1", "198.51.100.1, \x1b[2J", "10.0.0.1", "10.0.0.1"),
        ("10.0.0.1", ", ".join(["198.51.100.1"] + ["10.0.0.2"] * 10_000), "10.0.0.2", "10.0.0.2"),
    ],
)
def test_the_sender_is_the_first_that_no_trusted_proxy_vouches_for(
    peer: str, forwarded_for: str, sender: str, party: str
) -> None:
    headers = {b"x-forwarded-for": forwarded_for.encode("latin-1")}
    assert read_sender(headers, peer, PROXIES) == sender
    assert read_address(headers, peer, PROXIES) == party


@pytest.mark.parametrize("trusted", ["", "127.0.0.0/8"])
async def test_a_change_is_in_the_name_of_the_address_behind_a_trusted_proxy(
    services: Services, use_cases: UseCases, trusted: str
) -> None:
    behind = structs.replace(services, trusted_proxies=(ip_network(trusted),) if trusted else ())
    api = Api(make_application(behind, AccessLog(services.context.clock, wanted="off")))
    body = {"amount": 1, "key": "loja@sandbox.pix.example"}
    answer = await api.post("/v1/connect/charge", body, headers={"X-Forwarded-For": f"203.0.113.9, {LONG}"})
    ((_, (_, caller, _)),) = use_cases.asked
    assert isinstance(caller, Caller)
    assert caller.peer == (LONG if trusted else "127.0.0.1")
    assert caller.request_id == answer.headers["x-request-id"]
