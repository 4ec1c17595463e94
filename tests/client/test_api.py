"""A program's client: its token, what it sends, and what it makes of whatever comes back."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from pixconnect.client import Client, NoAnswer, Refused

LIFETIME_S = 300


class StubService:
    """Answers with what a test has laid out, and remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes]] = []
        self.asked: list[tuple[str, str, str, bytes]] = []
        self.tokens_count = 0
        service = self

        class Stub(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                if self.path == "/auth/v1/iam/users/login":
                    service.tokens_count += 1
                    assert body == b"grant_type=client_credentials&client_id=me&client_secret=a%26b"
                    issued = {"access_token": f"token-{service.tokens_count}", "expires_in": LIFETIME_S}
                    self.answer(200, json.dumps({"data": issued}).encode())
                    return
                service.asked.append((self.command, self.path, self.headers["Authorization"], body))
                self.answer(*(service.answers.pop(0) if service.answers else (200, b'{"data": {"id": 7}}')))

            do_GET = do_POST  # noqa: N815  as it is called

            def answer(self, status: int, content: bytes) -> None:
                self.send_response(status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  as it is called
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Stub)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def refuse(self, status: int, code: str) -> None:
        error = {"error": {"code": code, "message": "because"}, "meta": {"request_id": "r-1"}}
        self.answers.append((status, json.dumps(error).encode()))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class StopWatch:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def service() -> Iterator[StubService]:
    stub = StubService()
    yield stub
    stub.close()


@pytest.fixture
def watch() -> StopWatch:
    return StopWatch()


@pytest.fixture
def client(service: StubService, watch: StopWatch) -> Client:
    return Client(service.url, "me", "a&b", auth_url=f"{service.url}/auth/", monotonic_s=watch, timeout_s=60)


def test_what_is_asked_for_is_sent_with_a_token_and_answered_without_the_envelope(
    client: Client, service: StubService
) -> None:
    assert client.create_charge(10_607, "loja@pix.example", external_id="order-1", message="olá") == {"id": 7}
    client.send_to_key(1, "a@b.example", "EMAIL", external_id="order-2")
    client.send_to_qr_code(2, "000201", external_id="order-3")
    client.get_charge("a/b ç")
    client.get_transfer("order-2")
    client.ask("GET", "/v1/connect/ledger/list?page=2")
    paths = [(method, path, json.loads(body or b"null")) for method, path, _, body in service.asked]
    assert paths == [
        ("POST", "/v1/connect/charge",
            {"amount": 10_607, "key": "loja@pix.example", "external_id": "order-1", "message": "olá"}),
        ("POST", "/v1/connect/transfer/key",
            {"amount": 1, "key": "a@b.example", "key_type": "EMAIL", "external_id": "order-2"}),
        ("POST", "/v1/connect/transfer/qrcode", {"amount": 2, "emv": "000201", "external_id": "order-3"}),
        ("GET", "/v1/connect/charge/external-id/a%2Fb%20%C3%A7", None),
        ("GET", "/v1/connect/transfer/external-id/order-2", None),
        ("GET", "/v1/connect/ledger/list?page=2", None),
    ]  # fmt: skip
    assert {token for _, _, token, _ in service.asked} == {"Bearer token-1"}


def test_a_token_is_renewed_thirty_seconds_before_it_runs_out(
    client: Client, service: StubService, watch: StopWatch
) -> None:
    for passed_s, tokens_count in ((0, 1), (269, 1), (1, 2), (269, 2), (1, 3), (10_000, 4)):
        watch.seconds += passed_s
        client.get_transfer("a")
        assert service.tokens_count == tokens_count, passed_s


def test_threads_share_a_token(client: Client, service: StubService) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(list(pool.map(client.get_transfer, "abcdefghijklmnop"))) == 16
    assert service.tokens_count == 1


def test_a_refused_token_is_replaced_once(client: Client, service: StubService) -> None:
    service.refuse(401, "UNAUTHORIZED")
    assert client.get_transfer("a") == {"id": 7}
    assert [token for _, _, token, _ in service.asked] == ["Bearer token-1", "Bearer token-2"]
    service.refuse(401, "UNAUTHORIZED")
    service.refuse(401, "UNAUTHORIZED")
    with pytest.raises(Refused):
        client.get_transfer("a")
    assert len(service.asked) == 4


@pytest.mark.parametrize(
    ("status", "code", "may_have_happened"),
    [
        (422, "INSUFFICIENT_FUNDS", False),
        (503, "SERVICE_UNAVAILABLE", False),
        (504, "OUTCOME_UNKNOWN", True),
        (500, "INTERNAL_ERROR", True),
    ],
)
def test_a_refusal_says_what_it_is_and_is_sent_once(
    client: Client, service: StubService, status: int, code: str, may_have_happened: bool
) -> None:
    service.refuse(status, code)
    with pytest.raises(Refused, match=f"{code}: because") as refused:
        client.send_to_key(1, "a@b.example", "EMAIL", external_id="a")
    found: Any = refused.value
    assert (found.status, found.code, found.request_id) == (status, code, "r-1")
    assert found.may_have_happened is may_have_happened
    assert len(service.asked) == 1


@pytest.mark.parametrize(
    ("status", "content"), [(200, b"<html>"), (200, b"[]"), (502, b"bad gateway"), (302, b""), (504, b'{"error": 1}')]
)
def test_what_is_no_answer_of_the_service_is_none(
    client: Client, service: StubService, status: int, content: bytes
) -> None:
    service.answers.append((status, content))
    with pytest.raises(NoAnswer):
        client.get_transfer("a")
    assert len(service.asked) == 1


def test_a_service_that_cannot_be_reached_gives_no_answer(service: StubService) -> None:
    service.close()
    with pytest.raises(NoAnswer) as failed:
        Client(service.url, "me", "a&b", timeout_s=1).get_charge("a")
    assert "a%26b" not in str(failed.value)
