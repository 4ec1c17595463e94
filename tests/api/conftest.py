"""The API without anything behind it, to test quickly what is refused before any use case is called."""

from types import SimpleNamespace
from typing import Any

import pytest

from pixconnect.assembly.application import make_application
from pixconnect.doors.api.contract import charge, refund, transfer
from pixconnect.doors.api.operation import Descriptions, Services
from pixconnect.doors.api.site import Site
from pixconnect.features.documentation import descriptions
from pixconnect.features.pix_api.api import payload as location
from pixconnect.features.pix_api.api import payment
from pixconnect.features.sandbox import api as sandbox
from pixconnect.features.statements.api import statement
from pixconnect.features.webhooks.api import endpoint, feed
from pixconnect.features.webhooks.service.feed import FeedWaits
from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.flow.overload import Admission
from pixconnect.platform.flow.turns import Turns
from pixconnect.platform.logging import AccessLog
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
