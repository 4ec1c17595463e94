"""Refused requests are logged, others on request, both without secrets."""

import io
import json
import logging
import re
from collections.abc import Hashable, Iterator
from ipaddress import ip_network
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec import structs

from pixconnect.assembly.application import make_application
from pixconnect.doors.api.operation import Reply, RequestLines, Services
from pixconnect.doors.api.routing import read_address, read_sender
from pixconnect.doors.api.site import Site
from pixconnect.features.pix_api.api.frame import Paginacao
from pixconnect.features.pix_api.api.payment import ParametrosConsultaPix, PixConsultados
from pixconnect.features.pix_api.service.pix import Devolucao, Horario
from pixconnect.kernel.rules.access import Caller
from pixconnect.platform import logging as our_logging
from pixconnect.platform.base import errors
from pixconnect.platform.flow.overload import AT_ONCE_COUNT
from pixconnect.platform.flow.shares import current_party
from pixconnect.platform.logging import AccessLog, AccessLogWanted, LinesOnTerminal
from support.api import Api, UseCases, build_small_site
from support.service import FakeClock, a_context

CHARGES = "/v1/connect/charge/list"


class Logged:
    """An application and its log."""

    def __init__(self, services: Services, wanted: AccessLogWanted) -> None:
        self.stream = io.StringIO()
        self.log = AccessLog(services.context.clock, wanted=wanted, stream=self.stream)
        self.api = Api(make_application(services, self.log))

    def lines(self) -> list[dict[str, Any]]:
        self.log.flush()
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


async def test_what_a_token_may_not_and_who_has_none_leave_a_line(services: Services) -> None:
    logged = Logged(services, "refused")
    await logged.api.get(CHARGES)
    await logged.api.get(CHARGES, token="poor")
    await logged.api.get(CHARGES + "?page=1", token=None, headers={"Authorization": "Bearer hunter2"})
    found = [(line["status"], line["operation"], line["client_id"], line["level"]) for line in logged.lines()]
    assert [(status, level) for status, _, _, level in found] == [(403, "warning"), (401, "warning")]
    assert found[0][1] == found[1][1] != ""
    assert found[0][2] is not None
    assert found[1][2] is None
    assert "hunter2" not in logged.stream.getvalue()


@pytest.mark.parametrize(("wanted", "count"), [("all", 1), ("refused", 0), ("off", 0)])
async def test_each_request_leaves_a_line_if_wanted(services: Services, wanted: AccessLogWanted, count: int) -> None:
    logged = Logged(services, wanted)
    answer = await logged.api.get(CHARGES)
    assert len(logged.lines()) == count
    for line in logged.lines():
        assert (line["status"], line["client_id"] is not None) == (answer.status, True)
        assert line["duration_ms"] >= 0


async def test_behind_a_trusted_proxy_the_line_has_the_callers_address(services: Services) -> None:
    forwarded = {"X-Forwarded-For": "203.0.113.9"}
    plain, proxied = (
        Logged(msgspec.structs.replace(services, trusted_proxies=(ip_network(networks),) if networks else ()), "all")
        for networks in ("", "0.0.0.0/0")
    )
    for logged in (plain, proxied):
        await logged.api.get(CHARGES, headers=forwarded)
    assert plain.lines()[0]["peer"] != "203.0.113.9"
    assert proxied.lines()[0]["peer"] == "203.0.113.9"


async def test_a_flood_of_refused_requests_leaves_a_few_lines_and_their_count(services: Services) -> None:
    logged = Logged(services, "refused")
    for _ in range(2_000):
        logged.log.append(
            operation="get_health", method="GET", path="/", status=429, duration_ms=0.1, request_id="r", holder_id=None,
            client_id=None, peer="127.0.0.1",
        )  # fmt: skip
    assert logged.stream.getvalue() == ""  # until the second is over
    assert len(logged.lines()) == AccessLog.REFUSED_SHOWN_MAX


@pytest.fixture
def terminal() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    our_logging.show(stream)
    yield stream
    our_logging.hide()


async def test_a_sandbox_shows_each_request(
    services: Services, use_cases: UseCases, terminal: io.StringIO, tmp_path: Path
) -> None:
    served = structs.replace(services, site=Site(build_small_site(tmp_path)))
    api = Api(make_application(served, RequestLines()))
    await api.get(CHARGES)
    await api.get(CHARGES + "?page=0", headers={"X-Request-Id": "mine"})
    await api.get("/v1/connect/health\x1b[2J", token=None)
    await api.get("/docs/assets/page.css", token=None)
    told = [re.sub(r"  \d+ ms", "", line[10:]) for line in terminal.getvalue().splitlines()]
    assert told[0].startswith(f"GET    {CHARGES}  ")
    assert told[1] == f"GET    {CHARGES}  400  BAD_REQUEST: page: must be at least 1  (request mine)"
    assert told[2].startswith("GET    /v1/connect/health?[2J  404  NOT_FOUND")
    assert len(told) == 3


def test_whoever_watches_a_sandbox_sees_what_the_standards_door_answered(terminal: io.StringIO) -> None:
    returned = Devolucao(
        id="d1",
        rtr_id="D" * 32,
        valor="4.00",
        natureza="ORIGINAL",
        horario=Horario(solicitacao="2026-07-01T15:00:00.000Z"),
        status="EM_PROCESSAMENTO",
    )
    page = Paginacao(pagina_atual=0, itens_por_pagina=100, quantidade_de_paginas=1, quantidade_total_de_itens=7)
    listed = PixConsultados(parametros=ParametrosConsultaPix(paginacao=page), pix=[])
    for record in (returned, listed, None):
        answered = dict(operation="any", method="PUT", path="/v2/pix", target=b"/v2/pix", status=200, duration_ms=1.0)
        answered["request_id"] = "1"
        RequestLines().append(**answered, result=Reply(status=200, record=record))  # type: ignore[arg-type]
    told = [line.partition("1 ms")[2].strip() for line in terminal.getvalue().splitlines()]
    assert told == ["R$ 4,00  EM_PROCESSAMENTO", "7 in all", ""]


@pytest.mark.parametrize(
    ("operation", "method", "status", "told"),
    [
        ("request_token", "POST", 200, ""),
        ("request_oauth_token", "POST", 200, ""),
        ("request_token", "POST", 401, "POST   /v1  401  1 ms  UNAUTHORIZED: unknown client  (request 1)"),
        ("delete_webhook_endpoint", "DELETE", 200, "DELETE /v1  200  1 ms"),
        ("change_webhook_endpoint", "PATCH", 200, "PATCH  /v1  200  1 ms  active"),
    ],
)
def test_a_terminal_leaves_out_logins_and_the_state_of_what_was_deleted(
    terminal: io.StringIO, operation: str, method: str, status: int, told: str
) -> None:
    said = errors.Unauthorized("unknown client") if status == 401 else SimpleNamespace(status="active")
    asked = dict(operation=operation, method=method, path="/v1", target=b"/v1", duration_ms=1.0, request_id="1")
    RequestLines().append(**asked, status=status, result=said)  # type: ignore[arg-type]
    assert terminal.getvalue()[10:].strip() == told


def test_a_terminal_is_shown_so_many_lines_a_second_and_as_many_again_that_are_bad() -> None:
    stream, now = io.StringIO(), [1000.0]
    handler = LinesOnTerminal(stream, has_colors=False, monotonic_s=lambda: now[0])
    for level in (logging.INFO, logging.WARNING):
        for number in range(100):
            handler.emit(logging.LogRecord("", level, "", 0, "%s", (f"line {number}",), None))
    now[0] += 1
    handler.emit(logging.LogRecord("", logging.INFO, "", 0, "%s", ("the next",), None))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2 * LinesOnTerminal.SHOWN_MAX + 2
    assert lines[-2].split() == ["...", "and", "160", "more"]


async def test_a_refusal_that_is_sent_later_leaves_its_line_at_once(services: Services) -> None:
    services = structs.replace(services, context=a_context(clock=FakeClock(monotonic_s=0.0)))
    logged = Logged(services, "refused")
    for _ in range(AT_ONCE_COUNT):
        await logged.api.get(CHARGES, token=None)
    lines_count = len(logged.lines())
    await logged.api.get(CHARGES, token=None)
    assert (len(logged.api.delays_s), len(logged.lines())) == (1, lines_count + 1)


PROXIES = tuple(map(ip_network, ("127.0.0.1/32", "10.0.0.0/8", "fd00::/8")))
LONG = "2001:db8:1:2:3:4:5:6"


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "sender", "party"),
    [
        # Without a trusted proxy, the peer's address counts and the header is ignored.
        ("192.0.2.7", "198.51.100.1", "192.0.2.7", "192.0.2.7"),
        (LONG, "198.51.100.1", LONG, "2001:db8:1:2::/64"),
        # The addresses written by trusted proxies.
        ("127.0.0.1", "", "127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "198.51.100.1", "198.51.100.1", "198.51.100.1"),
        ("127.0.0.1", "203.0.113.9, 198.51.100.1, 10.1.1.1", "198.51.100.1", "198.51.100.1"),
        ("::ffff:127.0.0.1", "198.51.100.1:4711", "198.51.100.1", "198.51.100.1"),
        ("fd00::1", f"[{LONG}]:443", LONG, "2001:db8:1:2::/64"),
        ("10.0.0.1", "2001:DB8:1:2:0:0:0:9%eth0", "2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("10.0.0.1", "::ffff:198.51.100.1", "198.51.100.1", "198.51.100.1"),
        # An invalid address is ignored and never recorded.
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
    context = a_context(clock=FakeClock(monotonic_s=0.0))  # otherwise slow steps would restore the budget
    proxies = (ip_network(trusted),) if trusted else ()
    behind = structs.replace(services, context=context, trusted_proxies=proxies)
    return Api(make_application(behind, AccessLog(context.clock, wanted="off")))


@pytest.mark.parametrize(("trusted", "counts_apart"), [("127.0.0.0/8", True), ("", False), ("10.0.0.0/8", False)])
async def test_strangers_behind_a_trusted_proxy_are_parties_of_their_own_and_nobody_else_chooses_one(
    services: Services, monkeypatch: pytest.MonkeyPatch, trusted: str, counts_apart: bool
) -> None:
    parties: list[Hashable] = []

    async def note_party(authorization: bytes | None) -> Caller:
        parties.append(current_party.get())
        raise errors.Unauthorized("Authorization: token expired")

    monkeypatch.setattr(services.verifier, "verify", note_party)
    api = behind_proxies(services, trusted)
    for _ in range(AT_ONCE_COUNT):
        await api.get(CHARGES, token="old", headers={"X-Forwarded-For": "203.0.113.9"})
    assert not api.delays_s
    await api.get(CHARGES, token="old", headers={"X-Forwarded-For": "198.51.100.1"})
    assert bool(api.delays_s) != counts_apart
    assert set(parties) == ({"203.0.113.9", "198.51.100.1"} if counts_apart else {"127.0.0.1"})
    await api.get(CHARGES, token="old", headers={"X-Forwarded-For": f"{LONG}, 203.0.113.9"})
    assert len(api.delays_s) == (1 if counts_apart else 2), "what stands before it is not believed"


@pytest.mark.parametrize("trusted", ["", "127.0.0.0/8"])
async def test_a_change_names_the_address_behind_a_proxy(services: Services, use_cases: UseCases, trusted: str) -> None:
    api = behind_proxies(services, trusted)
    body = {"amount": 1, "key": "loja@sandbox.pix.example"}
    answer = await api.post("/v1/connect/charge", body, headers={"X-Forwarded-For": f"203.0.113.9, {LONG}"})
    ((_, (_, caller, _)),) = use_cases.asked
    assert isinstance(caller, Caller)
    assert caller.peer == (LONG if trusted else "127.0.0.1")
    assert caller.request_id == answer.headers["x-request-id"]
