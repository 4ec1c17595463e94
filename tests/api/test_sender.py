"""Which address a request is said to come from."""

import asyncio
from collections.abc import Hashable
from ipaddress import ip_network

import pytest
from msgspec import structs

from pixconnect.api.application import make_application
from pixconnect.api.frame.access import read_address, read_sender
from pixconnect.api.frame.operation import Services
from pixconnect.domain.frame import errors
from pixconnect.domain.identity.access import Caller
from pixconnect.flow.overload import AT_ONCE_COUNT
from pixconnect.flow.shares import current_party
from pixconnect.foundation.logging import AccessLog
from support.api import Api, UseCases
from support.service import FakeClock, a_context

PROXIES = tuple(map(ip_network, ("127.0.0.1/32", "10.0.0.0/8", "fd00::/8")))
CHARGES = "/v1/connect/charge/list"
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


def behind_proxies(services: Services, trusted: str) -> Api:
    context = a_context(clock=FakeClock(monotonic_s=0.0))  # or the pace would forgive what took long
    proxies = (ip_network(trusted),) if trusted else ()
    behind = structs.replace(services, context=context, trusted_proxies=proxies)
    return Api(make_application(behind, AccessLog(context.clock, wanted="off")))


@pytest.mark.parametrize(("trusted", "counts_apart"), [("127.0.0.0/8", True), ("", False), ("10.0.0.0/8", False)])
async def test_strangers_behind_a_trusted_proxy_are_parties_of_their_own_and_nobody_else_chooses_one(
    services: Services, monkeypatch: pytest.MonkeyPatch, trusted: str, counts_apart: bool
) -> None:
    parties: list[Hashable] = []
    waited_s: list[float] = []

    async def note_party(authorization: bytes | None) -> Caller:
        parties.append(current_party.get())
        raise errors.Unauthorized("Authorization: token expired")

    async def note_wait(delay_s: float) -> None:
        waited_s.append(delay_s)

    monkeypatch.setattr(services.verifier, "verify", note_party)
    monkeypatch.setattr(asyncio, "sleep", note_wait)
    api = behind_proxies(services, trusted)
    for _ in range(AT_ONCE_COUNT):
        await api.get(CHARGES, token="old", headers={"X-Forwarded-For": "203.0.113.9"})
    assert not waited_s
    await api.get(CHARGES, token="old", headers={"X-Forwarded-For": "198.51.100.1"})
    assert bool(waited_s) != counts_apart
    assert set(parties) == ({"203.0.113.9", "198.51.100.1"} if counts_apart else {"127.0.0.1"})
    await api.get(CHARGES, token="old", headers={"X-Forwarded-For": f"{LONG}, 203.0.113.9"})
    assert len(waited_s) == (1 if counts_apart else 2), "what stands before it is not believed"


@pytest.mark.parametrize("trusted", ["", "127.0.0.0/8"])
async def test_a_change_names_the_address_behind_a_proxy(services: Services, use_cases: UseCases, trusted: str) -> None:
    api = behind_proxies(services, trusted)
    body = {"amount": 1, "key": "loja@sandbox.pix.example"}
    answer = await api.post("/v1/connect/charge", body, headers={"X-Forwarded-For": f"203.0.113.9, {LONG}"})
    ((_, (_, caller, _)),) = use_cases.asked
    assert isinstance(caller, Caller)
    assert caller.peer == (LONG if trusted else "127.0.0.1")
    assert caller.request_id == answer.headers["x-request-id"]
