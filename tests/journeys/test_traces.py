"""One trace connects a request with its order, the rail and each delivery, even if a process is killed on the way."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from secrets import token_hex

import httpx2
import pytest

from journeys.test_money_in import Both, Caller
from journeys.test_refunds_there import receive
from support.account_at_face import LIVE, allow_transfers, open_account, run
from support.collector import CollectedSpan, Collector
from support.installation import Installation, running
from support.listener import Answer, LoopbackServer
from support.ports import reserved_port
from support.waiting import wait_until
from support.whole_installation import Account, WholeInstallation, open_whole_installation

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("traces")]

PAYEE = "settle@sandbox.pix.example"
# All attributes that a span may have.
FACTS = {
    "http.request.method", "http.route", "http.response.status_code", "pixconnect.operation", "pixconnect.answer",
    "pixconnect.attempt",
}  # fmt: skip


class Receiver(LoopbackServer):
    def __init__(self) -> None:
        self.traceparents: list[str | None] = []
        self.takes = False
        super().__init__(self._take, "/hook", keeps=False)

    def _take(self, request: BaseHTTPRequestHandler, _: bytes) -> Answer:
        self.traceparents.append(request.headers["traceparent"])
        return 200 if self.takes else 500, {}, b""


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    try:
        yield receiver
    finally:
        receiver.close()


def transfer(service: WholeInstallation, account: Account, external_id: str, **headers: str) -> None:
    """Make one request with headers; its name is used only once, so it is not repeated."""
    base, form = service.installation.base_url, {"client_id": account.client_id, "client_secret": account.client_secret}
    login = httpx2.post(f"{base}/v1/iam/users/login", data=form | {"grant_type": "client_credentials"}, timeout=60)
    answer = httpx2.post(
        f"{base}/v1/connect/transfer/key",
        json={"amount": 100, "key": PAYEE, "key_type": "EMAIL", "external_id": external_id},
        headers={"Authorization": f"Bearer {login.json()['data']['access_token']}"} | headers,
        timeout=60,
    )
    assert answer.status_code == 200, answer.text


def read_status(service: WholeInstallation, account: Account, external_id: str) -> str:
    answer = service.insist(account, "GET", f"/v1/connect/transfer/external-id/{external_id}")
    return answer.data["status"]


def check_says_nothing_of_anybody(spans: list[CollectedSpan], *texts: str) -> None:
    said = repr(spans)
    for span in spans:
        assert span.facts.keys() <= FACTS, span
    for text in (*texts, "sandbox.pix.example", "127.0.0.1", "localhost", "Bearer", "E9999"):
        assert text not in said, text


def test_one_trace_leads_from_the_request_to_its_deliveries_over_deaths_of_the_worker() -> None:
    with Collector() as collector, receiving() as receiver, open_whole_installation(traces_url=collector.url) as service:
        account = service.open_account(10_000)
        hook = {"url": receiver.url, "secret": "s" * 16, "event_types": ["transfer.out.confirmed"]}
        assert service.insist(account, "POST", "/v1/webhook/endpoints", hook).status == 200
        trace_id, caller_id, name = token_hex(16), token_hex(8), f"kept-{token_hex(4)}"

        # The worker dies between the mark and the call: another one asks, and submits it.
        service.points.arm("work after mark")
        transfer(service, account, name, traceparent=f"00-{trace_id}-{caller_id}-01")
        wait_until(lambda: service.points.has_killed("work after mark"), "the worker dies")
        (request,) = collector.wait_for(trace_id, "POST /v1/connect/transfer/key")
        assert (request.parent_id, request.process) == (caller_id, "pixconnect-api")
        (order, *_) = collector.wait_for(trace_id, "order")
        assert (order.parent_id, order.process) == (request.span_id, "pixconnect-worker")
        (call,) = collector.wait_for(trace_id, "rail transfer")
        assert call.parent_id == order.span_id
        # Its hand-over follows its acceptance, by the later worker.
        assert request.began_ns <= order.began_ns <= call.began_ns <= call.ended_ns <= order.ended_ns
        question = collector.wait_for(trace_id, "rail query")[0]
        assert (question.parent_id, question.facts) == (request.span_id, {"pixconnect.answer": "unknown"})

        # The receiver refuses; after the next death another worker delivers it, in the same trace.
        wait_until(lambda: bool(receiver.traceparents), "an attempt is made")
        wait_until(lambda: any(each.has_failed for each in collector.list_of(trace_id, "webhook attempt")), "it was refused")
        refused = [each for each in collector.list_of(trace_id, "webhook attempt") if each.has_failed]
        service.kill("work")
        receiver.takes = True
        wait_until(
            lambda: (
                {each.span_id for each in collector.list_of(trace_id, "webhook attempt") if not each.has_failed}
                & {str(told).split("-")[2] for told in receiver.traceparents[1:]}
            ),
            "it is delivered",
        )
        attempts = collector.list_of(trace_id, "webhook attempt")
        assert refused[0].facts == {"http.response.status_code": 500, "pixconnect.attempt": 1}
        for each in attempts:
            assert each.parent_id == request.span_id
            told = {traceparent for traceparent in receiver.traceparents if each.span_id in str(traceparent)}
            # The holder has other receivers too.
            assert told <= {f"00-{trace_id}-{each.span_id}-01"}
        check_says_nothing_of_anybody(collector.spans, name, account.key, account.client_id, PAYEE)

        def list_others() -> list[CollectedSpan]:
            return [each for each in collector.spans if each.trace_id != trace_id]

        # A malformed one is ignored: a trace begins here.
        transfer(service, account, "malformed", traceparent=f"00-{trace_id}-{caller_id}-01-more")
        wait_until(lambda: read_status(service, account, "malformed") == "CONFIRMED", "it is settled")
        wait_until(lambda: any(each.name == request.name for each in list_others()), "a trace begins")
        began = [each for each in list_others() if each.name == request.name]
        assert [each.parent_id for each in began] == [""]
        collector.wait_for(began[0].trace_id, "rail transfer")

        # An unsampled trace is passed on, and nothing is exported.
        other, before = token_hex(16), len(receiver.traceparents)
        transfer(service, account, "unsampled", traceparent=f"00-{other}-{caller_id}-00")
        wait_until(lambda: any(other in str(told) for told in receiver.traceparents[before:]), "it is told on")
        assert {str(told)[-3:] for told in receiver.traceparents if other in str(told)} == {"-00"}
        assert collector.list_of(other) == []


def test_an_institution_is_told_of_the_trace_that_a_transfer_belongs_to(tmp_path: Path) -> None:
    with (
        Collector() as collector,
        running(tmp_path / "bank", FACES="efi:0", TRACES_URL=collector.url) as bank,
        reserved_port() as port,
        Installation(
            tmp_path / "live", PORT=str(port), CALLBACK_BASE_URL=f"http://127.0.0.1:{port}", TRACES_URL=collector.url, **LIVE
        ).wait_until_ready() as live,
    ):
        two = Both(bank=bank, live=live, url=f"http://127.0.0.1:{port}", folder=tmp_path)
        open_account(bank, live, tmp_path, "efi")
        receive(two)
        run(live, "institution", "webhook", "set", "loja", "--json")
        allow_transfers(live)
        caller = Caller(two, "transfer.read", "transfer.write", "ledger.read")
        body = {"amount": 100, "key": PAYEE, "key_type": "EMAIL", "external_id": "traced"}
        caller.insist("POST", "/v1/connect/transfer/key", body)
        path = "/v1/connect/transfer/external-id/traced"
        wait_until(lambda: caller.insist("GET", path)["status"] == "CONFIRMED", "it is settled")
        wait_until(lambda: any(each.name == "rail transfer" for each in collector.spans), "its call is told")

        def list_answered() -> list[CollectedSpan]:
            calls = {each.span_id for each in collector.spans if each.name == "rail transfer"}
            return [each for each in collector.spans if each.parent_id in calls]

        # The bank records traces too: its service has the same trace, over TLS and its simulated API. A call without a
        # connection has no span there.
        wait_until(lambda: bool(list_answered()), "the bank's span is told")
        answered = list_answered()[0]
        # Its program asked before with an invalid token.
        asked = {each.trace_id for each in collector.spans if each.name == "POST /v1/connect/transfer/key"}
        assert (answered.trace_id in asked, answered.process) == (True, "pixconnect-api")
        assert answered.facts["http.route"].startswith("/faces/efi/")
        check_says_nothing_of_anybody(collector.spans, "traced'")
