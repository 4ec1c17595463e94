"""Each public operation, in every form a stranger can send, costs little more than ``/livez`` and is limited by address.

The operations come from the routing table, so a new one is tested too. The cost is the number of Python calls for one
request, which is reproducible. Use cases are stubs here; their cost is measured by ``bench/run.py --only
request_costs``.
"""

import asyncio
import gzip
import re
from collections import Counter
from collections.abc import Callable, Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pixconnect.assembly.application import Application
from pixconnect.assembly.operations import list_routes
from pixconnect.doors.api import rates, site
from pixconnect.doors.api.operation import AnyOperation, Bare, Services
from pixconnect.doors.api.site import Site
from pixconnect.features.identity.service.keyring import Keyring
from pixconnect.features.institutions.service.webhook import CALLBACKS
from pixconnect.features.monitoring.service.health import HealthWatch, ServiceHealth
from pixconnect.features.pix_api.api.webhook import CALLBACK_ROWS
from pixconnect.kernel.rules.access import AccessToken
from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.flow.overload import RefusalPace
from pixconnect.platform.logging import AccessLog
from pixconnect_faces import fault
from pixconnect_faces.woovi import operations
from support.api import SMALL_SITE, Answer, Api, UseCases, build_small_site
from support.calls import CallCounter
from support.service import FakeClock, a_context

TIMES_MAX = 2  # the allowed cost of a request, as a multiple of one of ``/livez``
SLACK = 10
"""Calls beyond that, a few microseconds: a token request with malformed credentials is read up to them and then refused.
"""
VARIANTS = {
    "plain": {},
    "packed": {"accept-encoding": "gzip, br"},
    "known": {"if-none-match": "*"},
    "known by another tag": {"if-none-match": ", ".join(['"0123456789abcdef"'] * 200)},
    "odd types": {"accept": "image/*;q=0.1, " * 100, "accept-language": "pt-BR", "accept-encoding": "gzip;q=0, " * 100},
    "a part": {"range": "bytes=0-1", "if-range": '"x"', "if-modified-since": "Thu, 01 Jan 2026 00:00:00 GMT"},
    "a token": {"authorization": "Bearer nonsense"},
}
FORM = b"grant_type=client_credentials&client_id=a&client_secret=b"
KEY = dict(kid="a", kty="EC", crv="P-256", x="a" * 43, y="a" * 43, alg="ES256", use="sig")
TOKEN = AccessToken(access_token="a.b.c", expires_in_s=300, scopes=frozenset())
ANSWERS = dict(read_payload="a.b.c", login=TOKEN, list_callback_keys=[])  # stubs of use cases, by name
LIVEZ = ("GET", "/livez", "plain")


EVERY = tuple({(row.method, row.path): row for row in (*list_routes(is_sandbox=True), *CALLBACK_ROWS)}.values())
"""The operations of both modes: callbacks are served in live mode alone."""
PUBLIC = [row for row in EVERY if row.scope is None]
Opening = Callable[[], Application]
Asked = tuple[str, str, str]  # method, target and variant


NOWHERE = ("none", "guides/none.md")
NEVER_PACKED = ("guides/a-picture.png", "secret.pem")
"""The files of the small site: compressed already, or not served."""


def _list_targets(row: AnyOperation) -> Iterator[str]:
    """Addresses of the operation: real ones of the documentation, otherwise one that may not exist."""
    if row.path == "/docs/{page*}":
        pages = ("", "guides/webhooks", "guides/webhooks.md", "guides/a-picture.png", "assets/javascripts/bundle.js")
        yield from (f"/docs/{page}" for page in (*pages, *NOWHERE))
    else:
        yield re.sub(r"\{[^}]*\}", "a" * 32, row.path)


ASKED = [
    (method, target, variant)
    for row in PUBLIC
    for target in _list_targets(row)
    for method in ((row.method, "HEAD") if row.method == "GET" else (row.method,))
    for variant in VARIANTS
]


class _Keys:
    """Published keys, in the form of the key ring."""

    async def reload_if_older(self) -> None:
        pass

    def key_set(self) -> dict[str, Any]:
        return {"keys": [KEY]}

    certified_key_set = key_set

    def public_key_document(self) -> dict[str, Any]:
        return {**KEY, "pem": "", "keys": [KEY]}


class _Callbacks:
    async def take(self, name: str, secret: str, body: bytes, *, has_certificate: bool) -> bool:
        return True


@pytest.fixture
def services(services: Services, tmp_path: Path) -> Services:
    return structs.replace(services, site=Site(build_small_site(tmp_path)))


@pytest.fixture
def open_application(services: Services, use_cases: UseCases, monkeypatch: pytest.MonkeyPatch) -> Opening:
    """A new application, whose limits are unused, with the shortest successful use cases."""

    async def fine() -> None:
        pass

    async def draw(*_: object) -> str:
        return ""

    for name, answer in ANSWERS.items():
        use_cases.answers[name] = lambda *_, answer=answer: answer
    monkeypatch.setattr(fault, "draw_fault", draw)
    monkeypatch.setattr(operations, "event_callback", use_cases)
    use_cases.refuse_limited = lambda _: None
    clock = FakeClock(monotonic_s=0.0)
    watch = HealthWatch(dict.fromkeys(map(str, range(12)), fine), clock)
    health = ServiceHealth(read_health=watch.read_health, read_readiness=watch.read_health)
    keys: Any = _Keys()
    callbacks: Any = _Callbacks()
    parts = services.of_features | {Keyring: keys, ServiceHealth: health}
    context = services.context.with_port(CALLBACKS, callbacks)
    ready = structs.replace(services, context=context, of_features=parts, security_contacts=["mailto:security@pix.example"])
    application = Application(ready, EVERY, AccessLog(SystemClock(), wanted="off"))

    def open_again() -> Application:
        application._public_rates = rates.PublicRates(clock)
        application._refusal_pace = RefusalPace()
        return application

    return open_again


async def _ask(application: Application, method: str, target: str, variant: str) -> Answer:
    body = FORM if method == "POST" else b""
    form = "application/x-www-form-urlencoded"
    return await Api(application).call(method, target, body, token=None, headers=VARIANTS[variant], content_type=form)


async def _count_calls(application: Application, asked: Asked) -> int:
    """The least of three, since garbage collection may fall into one; a first request fills the caches."""
    await _ask(application, *asked)
    counters = [CallCounter(), CallCounter(), CallCounter()]
    for counter in counters:
        with counter:
            await _ask(application, *asked)
    return min(counter.count for counter in counters)


async def test_no_public_request_costs_more_than_twice_what_liveness_costs(open_application: Opening) -> None:
    calls_max = TIMES_MAX * await _count_calls(open_application(), LIVEZ) + SLACK
    costs = {asked: await _count_calls(open_application(), asked) for asked in ASKED}
    assert {asked: cost for asked, cost in costs.items() if cost > calls_max} == {}


async def test_a_parameter_is_decoded_only_for_a_caller_that_is_let_in(open_application: Opening) -> None:
    """Encoded, a path of the router's maximum length would cost a refusal several times the rest."""
    path = "/v1/connect/charge/external-id/"
    plain, encoded = [await _count_calls(open_application(), ("GET", path + text * 1000, "plain")) for text in ("a", "%41")]
    assert abs(encoded - plain) <= SLACK
    assert (await _ask(open_application(), "GET", path + "%41" * 1000, "plain")).status == 401


async def test_the_operations_are_asked_for_what_they_answer(open_application: Opening) -> None:
    """Otherwise the cost of a refusal would be taken for that of an answer."""
    plain = {(method, target) for method, target, variant in ASKED if variant == "plain"}
    answers = {asked: (await _ask(open_application(), *asked, "plain")).status for asked in plain}
    others = {asked for asked, status in answers.items() if status != 200}
    assert {target for _, target in others} == {f"/docs/{page}" for page in NOWHERE}


@pytest.mark.parametrize("row", PUBLIC, ids=lambda row: f"{row.method} {row.path}")
async def test_an_address_that_asks_too_often_is_refused_before_the_work_and_another_is_not(
    row: AnyOperation, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled: list[str] = []

    async def handle(_: Services, request: Any) -> Bare[int]:
        handled.append(request.address)
        return Bare(1)

    async def skip(_: float) -> None:
        pass

    monkeypatch.setattr(asyncio, "sleep", skip)
    clock = FakeClock(monotonic_s=0.0)
    asked = structs.replace(row, handler=handle, pace=structs.replace(row.pace, tokens_max=2))
    trusted = structs.replace(services, context=a_context(clock=clock), trusted_proxies=(ip_network("127.0.0.0/8"),))
    api = Api(Application(trusted, (asked,), AccessLog(clock, wanted="off")))
    target = re.sub(r"\{[^}]*\}", "a" * 32, row.path)

    async def ask(address: str) -> Answer:
        body, form = (FORM, "application/x-www-form-urlencoded") if row.method == "POST" else (b"", None)
        headers = {"X-Forwarded-For": address}
        return await api.call(row.method, target, body, token=None, headers=headers, content_type=form)

    statuses = [(await ask("203.0.113.9")).status for _ in range(4)]
    assert statuses == [200, 200, 429, 429]
    assert (await ask("203.0.113.9")).headers["retry-after"] == "1"
    assert (await ask("198.51.100.1")).status == 200
    assert handled == ["203.0.113.9"] * 2 + ["198.51.100.1"]


async def test_probes_of_a_balancer_and_a_page_with_its_parts_meet_no_limit(open_application: Opening) -> None:
    application = open_application()
    page = ("/docs/", "/docs/assets/page.css", "/docs/assets/javascripts/bundle.js", "/docs/guides/a-picture.png")
    for target in (*("/livez", "/readyz") * 500, *page * 20):
        assert (await _ask(application, "GET", target, "packed")).status == 200, target


async def test_many_octets_count_as_many_requests_and_heads_as_one(open_application: Opening) -> None:
    def left(application: Application) -> float:
        bucket = application._public_rates._buckets.find(rates.PAGES, "127.0.0.1", 0.0)
        return rates.PAGES.tokens_max - bucket._level

    for method, variant in (("GET", "plain"), ("HEAD", "plain"), ("GET", "known")):
        application = open_application()
        octets = len((await _ask(application, method, "/openapi.json", variant)).content)
        is_sent = (method, variant) == ("GET", "plain")
        assert left(application) == pytest.approx(1 + (octets / rates.OCTETS_EACH if is_sent else 0), abs=0.01), method


async def test_a_walk_over_all_pages_reads_and_packs_each_once(
    open_application: Opening, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: Counter[str] = Counter()

    def count(name: str, make: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            made[name] += 1
            return make(*arguments, **options)

        return counted

    for module, name in ((site, "_read"), (gzip, "compress")):
        monkeypatch.setattr(module, name, count(name, getattr(module, name)))
    addresses = [address for address in services.site.addresses if not address.endswith(".png")]
    for _ in range(2):
        for address in addresses:
            answer = await _ask(open_application(), "GET", f"/docs/{address}", "packed")
            assert (answer.status, answer.headers["content-encoding"]) == (200, "gzip")
    # A page has two addresses, the first page three.
    files_count = len(SMALL_SITE) - len(NEVER_PACKED)
    assert made == dict(_read=files_count, compress=files_count)


@pytest.mark.parametrize(
    "target", ["/docs", "/docs/", "/docs/guides/webhooks", "/docs/guides/webhooks.md", "/docs/assets/page.css", "/openapi.json"]
)
async def test_a_document_that_the_caller_has_is_not_sent_again(open_application: Opening, target: str) -> None:
    api = Api(open_application())
    tags: set[str] = set()
    for takes in ("identity", "gzip"):
        headers = {"accept-encoding": takes}
        first = await api.get(target, token=None, headers=headers)
        tag = first.headers["etag"]
        assert first.headers["cache-control"] == "public, max-age=300"
        assert first.headers["vary"] == "accept-encoding"
        assert first.headers["content-length"] == str(len(first.content))
        tags.add(tag)
        for known in (tag, f'"other", W/{tag}', "*"):
            again = await api.get(target, token=None, headers=headers | {"if-none-match": known})
            assert (again.status, again.content, again.headers["etag"]) == (304, b"", tag)
            assert "content-length" not in again.headers
        assert (await api.get(target, token=None, headers=headers | {"if-none-match": '"other"'})).status == 200
    assert len(tags) == 2, "each form has its own"


@pytest.mark.parametrize(
    "takes",
    ["gzip", "GZIP;q=0.5", "br, x-gzip ;q=1", "gzip" + "," * 300, "gzip;q=0." + "0" * 300 + "1", "gzip;q=0", "*"],
    ids=lambda takes: takes[:20],
)
async def test_an_answer_is_packed_for_a_short_header_that_accepts_it(open_application: Opening, takes: str) -> None:
    """Searching a header of the maximum length would cost ten times ``/livez``, in one call."""
    answer = await Api(open_application()).get("/docs/assets/page.css", token=None, headers={"accept-encoding": takes})
    is_packed = answer.headers.get("content-encoding") == "gzip"
    assert is_packed is (takes in {"gzip", "GZIP;q=0.5", "br, x-gzip ;q=1"})
