"""The API without anything behind it, to test quickly what is refused before any use case is called."""

from types import SimpleNamespace
from typing import Any

import pytest

from pixconnect.adapters.system import SystemClock
from pixconnect.api import descriptions
from pixconnect.api.application import make_application
from pixconnect.api.contract import charge, endpoint, feed, refund, sandbox, statement, transfer
from pixconnect.api.frame.operation import Descriptions, Services
from pixconnect.api.frame.site import Site
from pixconnect.api.standard import payload as location
from pixconnect.api.standard import payment
from pixconnect.flow.overload import Admission
from pixconnect.flow.turns import Turns
from pixconnect.foundation.logging import AccessLog
from pixconnect.usecases.webhooks.feed import FeedWaits
from support.api import Api, StubVerifier, UseCases
from support.records import a_policy
from support.service import a_context

BASE_URL = "http://127.0.0.1:8080"


@pytest.fixture
def use_cases(monkeypatch: pytest.MonkeyPatch) -> UseCases:
    stub = UseCases()
    for module, name in [
        (charge, "charge"),
        (transfer, "transfer"),
        (refund, "refund"),
        (statement, "ledger"),
        (endpoint, "endpoint"),
        (endpoint, "redelivery"),
        (feed, "feed"),
        (sandbox, "sandbox"),
        (sandbox, "clock"),
        (sandbox, "ledger"),
        (location, "payload"),
    ]:
        monkeypatch.setattr(module, f"{name}_usecases", stub)
    return stub


@pytest.fixture
def standard_use_cases(monkeypatch: pytest.MonkeyPatch) -> UseCases:
    stub = UseCases()
    monkeypatch.setattr(payment, "standard_pix_usecases", stub)
    return stub


@pytest.fixture(scope="session")
def described() -> Descriptions:
    """The OpenAPI document, in sandbox mode."""
    return descriptions.describe(a_policy(), base_url=BASE_URL, version="0.1.0")


@pytest.fixture
def services(use_cases: UseCases, described: Descriptions) -> Services:
    """The smallest dependencies of the application."""

    async def no_health() -> Any:
        raise AssertionError("not asked for")

    async def draw(text: str) -> bytes:
        return b"picture of " + text.encode()

    return Services(
        context=a_context(clock=SystemClock()), verifier=StubVerifier(), token_issuer=use_cases,
        keys=SimpleNamespace(), read_health=no_health, read_readiness=no_health, draw_qr_png=draw,
        feed_waits=FeedWaits(no_health), callbacks=SimpleNamespace(), admission=Admission(), turns=Turns(),
        descriptions=described, site=Site(None), base_url=BASE_URL, rates=None, trusted_proxies=(), version="0.1.0",
    )  # fmt: skip


@pytest.fixture
def api(services: Services) -> Api:
    return Api(make_application(services, AccessLog(services.context.clock, wanted="off")))
