"""Both clients over real connections to a service with prepared answers."""

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from itertools import islice
from typing import Any

import pytest

from client.test_core import CHARGE, PAYLOAD
from pixconnect_client import AsyncClient, ChargeEvent, Client, NoAnswer
from support.listener import Answer, LoopbackServer

EXPIRED = PAYLOAD | dict(status="EXPIRED", create_timestamp="2026-11-19T12:00:05.000000Z")


class StubService(LoopbackServer):
    """Gives prepared answers, and keeps the requests."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes, dict[str, str]]] = []
        self.asked: list[tuple[str, str, str, bytes]] = []
        self.tokens_count = 0
        super().__init__(self._take, keeps=False)

    def _take(self, request: BaseHTTPRequestHandler, body: bytes) -> Answer:
        status, content, headers = 200, json.dumps({"data": CHARGE}).encode(), dict[str, str]()
        if request.path == "/auth/v1/iam/users/login":
            self.tokens_count += 1
            assert body == b"grant_type=client_credentials&client_id=me&client_secret=a%26b"
            content = json.dumps({"data": {"access_token": f"token-{self.tokens_count}", "expires_in": 300}}).encode()
        else:
            self.asked.append((request.command, request.path, request.headers["Authorization"], body))
            if self.answers:
                status, content, headers = self.answers.pop(0)
        return status, {"Content-Type": "application/json", **headers}, content

    def lay_out(self, status: int, content: object, **headers: str) -> None:
        octets = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.answers.append((status, octets, headers))

    def lay_out_pages(self) -> None:
        pages = dict(page=1, page_size=1, total_items=2, total_pages=2, has_prev=False)
        link = '<https://elsewhere.example/v1/connect/charge/list?page_size=1&after=AQID>; rel="next"'
        self.lay_out(200, {"data": [CHARGE], "pagination": {**pages, "has_next": True}}, Link=link)
        self.lay_out(200, {"data": [{**CHARGE, "id": 8}], "pagination": {**pages, "has_next": False}})


@pytest.fixture
def service() -> Iterator[StubService]:
    stub = StubService()
    yield stub
    stub.close()


@pytest.fixture
def client(service: StubService) -> Iterator[Client]:
    with Client(service.url, "me", "a&b", auth_url=f"{service.url}/auth/", timeout_s=60, retries=0) as one:
        yield one


def run(service: StubService, use: Callable[[AsyncClient], Any]) -> Any:
    async def inner() -> Any:
        async with AsyncClient(service.url, "me", "a&b", auth_url=f"{service.url}/auth/", timeout_s=60, retries=0) as one:
            return await use(one)

    return asyncio.run(inner())


def test_a_request_has_a_token_and_its_answer_no_envelope(client: Client, service: StubService) -> None:
    assert client.charges.create(10_607, "loja@pix.example", external_id="order-1").id == 7
    client.charges.get_by_external_id("a/b ç", base64=True)
    assert client.request("get", "/v1/connect/ledger/list", query={"page": 2}) == CHARGE
    assert client.request("POST", "/v1/new", body={"external_id": "a", "of": {"b": None}}) == CHARGE
    client.charges.create(1, "loja@pix.example", external_id="")
    assert [(method, path, json.loads(body or b"null")) for method, path, _, body in service.asked] == [
        ("POST", "/v1/connect/charge", {"amount": 10_607, "key": "loja@pix.example", "external_id": "order-1"}),
        ("GET", "/v1/connect/charge/external-id/a%2Fb%20%C3%A7?base64=true", None),
        ("GET", "/v1/connect/ledger/list?page=2", None),
        ("POST", "/v1/new", {"external_id": "a", "of": {"b": None}}),
        # An empty name is the caller's mistake, which the service refuses: with a new one, a repeat would pay twice.
        ("POST", "/v1/connect/charge", {"amount": 1, "key": "loja@pix.example", "external_id": ""}),
    ]
    assert {token for _, _, token, _ in service.asked} == {"Bearer token-1"}


def test_the_asynchronous_client_asks_for_the_same(service: StubService) -> None:
    assert run(service, lambda one: one.charges.create(10_607, "loja@pix.example", external_id="order-1")).id == 7
    assert run(service, lambda one: one.request("GET", "/v1/new?a=b")) == CHARGE
    assert [(method, path) for method, path, _, _ in service.asked] == [("POST", "/v1/connect/charge"), ("GET", "/v1/new?a=b")]


def test_threads_and_tasks_share_a_token(client: Client, service: StubService) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(list(pool.map(client.charges.get, range(16)))) == 16
    assert service.tokens_count == 1

    async def ask_at_once(one: AsyncClient) -> None:
        await asyncio.gather(*[one.charges.get(number) for number in range(16)])

    run(service, ask_at_once)
    assert service.tokens_count == 2


def test_a_list_goes_on_over_all_pages_and_never_to_another_host(client: Client, service: StubService) -> None:
    service.lay_out_pages()
    assert [charge.id for charge in client.charges.list(page=1, page_size=1, status="PENDING")] == [7, 8]
    service.lay_out_pages()

    async def iterate(one: AsyncClient) -> list[int]:
        return [charge.id async for charge in one.charges.list(page=1, page_size=1, status="PENDING")]

    assert run(service, iterate) == [7, 8]
    first, second = "status=PENDING&page=1&page_size=1", "status=PENDING&page_size=1&after=AQID"
    paths = [f"/v1/connect/charge/list?{query}" for query in (first, second) * 2]
    assert [path for _, path, _, _ in service.asked] == paths


def lay_out_feed(service: StubService) -> None:
    event = dict(
        id=1,
        name="qrcode.expired",
        create_timestamp="2026-11-20T12:00:05.000000Z",
        resource="charge",
        resource_id=7,
        payload=EXPIRED,
        detail={"amount": 10_607},
        cursor="after-1",
    )
    service.lay_out(200, {"data": {"events": [event], "cursor": "one", "has_more": True}})
    service.lay_out(200, {"data": {"events": [], "cursor": "two", "has_more": False}})
    service.lay_out(200, {"data": {"events": [{**event, "id": 2}], "cursor": "three", "has_more": False}})


def test_the_feed_is_followed_from_part_to_part(client: Client, service: StubService) -> None:
    lay_out_feed(service)
    events = list(islice(client.events.follow(start="now", resource="charge"), 2))
    lay_out_feed(service)

    async def follow(one: AsyncClient) -> list[int]:
        ids: list[int] = []
        async for event in one.events.follow(start="now", resource="charge"):
            ids.append(event.id)
            if len(ids) == 2:
                break
        return ids

    assert [event.id for event in events] == run(service, follow) == [1, 2]
    queries = ["wait_s=25&start=now", "wait_s=25&cursor=one", "wait_s=25&cursor=two"] * 2
    asked = [path.partition("?")[2].replace("&resource=charge", "") for _, path, _, _ in service.asked]
    assert asked == queries
    assert isinstance(events[0].event, ChargeEvent)
    assert events[0].event.payload.external_id == "order-1"
    assert (events[0].detail.amount, events[0].cursor) == (10_607, "after-1")
    body = '{"id":1,"name":"qrcode.expired","payload":%s,"create_timestamp":"2026-11-20T12:00:05.000000Z"}'
    assert events[0].body.decode() == body % json.dumps(EXPIRED)


def test_a_redirect_is_not_followed(client: Client, service: StubService) -> None:
    for _ in range(2):
        service.lay_out(302, b"", Location=f"{service.url}/elsewhere")
    with pytest.raises(NoAnswer, match="302"):
        client.charges.get(7)
    with pytest.raises(NoAnswer, match="302"):
        run(service, lambda one: one.charges.get(7))
    assert [path for _, path, _, _ in service.asked] == ["/v1/connect/charge/7"] * 2


def test_a_service_that_cannot_be_reached_gives_no_answer_and_nothing_happened(service: StubService) -> None:
    service.close()
    with pytest.raises(NoAnswer) as failed:
        Client(service.url, "me", "a&b", retries=0).charges.create(1, "a")
    assert not failed.value.may_have_happened
    assert "a%26b" not in str(failed.value)


def test_no_proxy_is_asked_for_what_is_on_this_machine(service: StubService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with Client(service.url, "me", "a&b", auth_url=f"{service.url}/auth", retries=0) as client:
        assert client.charges.get(7).id == 7


def test_an_answer_that_breaks_off_is_none(client: Client, service: StubService) -> None:
    service.lay_out(200, b'{"data": ', **{"Content-Length": "1000"})
    with pytest.raises(NoAnswer) as failed:
        client.charges.create(1, "a")
    assert failed.value.may_have_happened


def test_a_file_is_read_as_it_comes_and_an_aborted_one_is_an_error(client: Client, service: StubService) -> None:
    period = (datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 30, tzinfo=UTC))
    service.lay_out(200, b"a;b\n", **{"Content-Type": "text/csv", "Content-Disposition": 'attachment; filename="s.csv"'})
    with client.download_statement(*period, "csv") as file:
        assert (b"".join(file), file.file_name, file.media_type) == (b"a;b\n", "s.csv", "text/csv")
    service.lay_out(200, b"a;b\n", **{"Content-Length": "1000"})
    with client.download_statement(*period, "csv") as file, pytest.raises(NoAnswer, match="download was aborted"):
        b"".join(file)

    async def read(one: AsyncClient) -> bytes:
        async with await one.download_statement(*period, "csv") as file:
            return b"".join([some async for some in file])

    service.lay_out(200, b"a;b\n")
    assert run(service, read) == b"a;b\n"
    with pytest.raises(ValueError, match="time zone"):
        client.download_statement(datetime(2026, 11, 1), period[1], "csv")  # noqa: DTZ001  that is refused
