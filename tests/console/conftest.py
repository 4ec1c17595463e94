"""A service of real processes and a browser for all console tests of a worker.

Another service is in live mode and in this process.
"""

import json
import tempfile
import urllib.parse
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import pytest_asyncio
from msgspec import Struct
from playwright.async_api import Browser, BrowserContext, Page, expect

from support import postgres
from support.browser import TIMEOUT_MS, open_browser
from support.installation import Installation, run_verb, running
from support.service import Service, open_service
from support.waiting import wait_until

DESKTOP: Any = dict(width=1280, height=800)

# The machine may be busy with other tests.
expect.set_options(timeout=TIMEOUT_MS)


class Holder(Struct, frozen=True, kw_only=True):
    holder_id: str
    client_id: str
    client_secret: str
    key: str


class Played:
    """Requests beside the browser, as from a program of a holder."""

    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        file = installation.sandbox
        self.base_url: str = file["base_url"]
        self.console_url: str = file["console_url"]
        self.holder = Holder(
            holder_id=file["holder_id"],
            client_id=file["client_id"],
            client_secret=file["client_secret"],
            key=file["pix_keys"][0],
        )

    def token(self, holder: Holder) -> str:
        login = urllib.parse.urlencode(
            dict(grant_type="client_credentials", client_id=holder.client_id, client_secret=holder.client_secret)
        )
        with urlopen(f"{self.base_url}/v1/iam/users/login", login.encode(), timeout=60) as answer:  # noqa: S310 - our own
            return json.load(answer)["data"]["access_token"]

    def call(self, holder: Holder, method: str, path: str, body: object = None) -> Any:
        request = Request(  # noqa: S310 - our own
            f"{self.base_url}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {self.token(holder)}", "Content-Type": "application/json"},
            method=method,
        )
        with urlopen(request, timeout=60) as answer:  # noqa: S310 - our own
            return json.load(answer)["data"]

    def open_holder(self) -> Holder:
        made = self.call(self.holder, "POST", "/sandbox/v1/holders", {"balance": 1_000_000})
        return Holder(**{name: str(made[name]) for name in Holder.__struct_fields__})

    def charge(self, holder: Holder, amount: int = 12345, **fields: object) -> Any:
        return self.call(holder, "POST", "/v1/connect/charge", {"amount": amount, "key": holder.key, **fields})

    def paid_charge(self, holder: Holder, amount: int = 12345, **fields: object) -> Any:
        charge = self.charge(holder, amount, **fields)
        self.call(holder, "POST", "/sandbox/v1/payments", {"emv": charge["emvqrcps"]})
        path = f"/v1/connect/charge/{charge['id']}"
        wait_until(lambda: self.call(holder, "GET", path)["status"] == "APPROVED")
        return charge

    def contest(self, holder: Holder, amount: int = 24990, **fields: object) -> int:
        charge = self.charge(holder, amount, **fields)
        paid = self.call(holder, "POST", "/sandbox/v1/payments", {"emv": charge["emvqrcps"]})
        words = "I never got the shoes, and nobody answers me."
        self.call(holder, "POST", "/sandbox/v1/infractions", dict(end_to_end_id=paid["end_to_end_id"], words=words))
        [told] = self.call(holder, "GET", "/v1/connect/infraction/list")
        return told["id"]

    def link(self) -> str:
        said = run_verb(self.installation.home, "operator", "link").stdout
        return f"{self.console_url}/enter?token={said.split()[-1]}"


@pytest.fixture
async def live(database: postgres.Addresses) -> AsyncIterator[Service]:
    await postgres.make_live(database)
    async with open_service(database, is_sandbox=False, has_rail=False) as service:
        yield service


@pytest.fixture(scope="module")
def played() -> Iterator[Played]:
    home = Path(tempfile.mkdtemp(prefix="pixconnect-console-"))
    home.chmod(0o711)
    try:
        with running(home) as installation:
            yield Played(installation)
    finally:
        postgres.remove_home(home)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with open_browser() as opened:
        yield opened


class Door:
    """Opens pages of signed-in visitors; one sign-in serves all tests of a module."""

    def __init__(self, browser: Browser, played: Played) -> None:
        self.browser = browser
        self.played = played
        self._state: Any = None

    @asynccontextmanager
    async def operator(self, **options: Any) -> AsyncIterator[Page]:
        if self._state is None:
            async with self.nobody() as page:
                await page.goto(self.played.link(), timeout=TIMEOUT_MS)
                await page.wait_for_url(f"{self.played.console_url}/", timeout=TIMEOUT_MS)
                self._state = await page.context.storage_state()
        async with self.nobody(storage_state=self._state, **options) as page:
            yield page

    @asynccontextmanager
    async def holder(self, holder: Holder, **options: Any) -> AsyncIterator[Page]:
        async with self.nobody(**options) as page:
            await page.goto("/sign-in", timeout=TIMEOUT_MS)
            await page.fill("[name=client_id]", holder.client_id)
            await page.fill("[name=client_secret]", holder.client_secret)
            await page.press("[name=client_secret]", "Enter")
            await page.wait_for_url(f"{self.played.console_url}/", timeout=TIMEOUT_MS)
            yield page

    @asynccontextmanager
    async def nobody(self, **options: Any) -> AsyncIterator[Page]:
        fitting: dict[str, Any] = dict(viewport=DESKTOP, locale="en-US", reduced_motion="reduce") | options
        context: BrowserContext = await self.browser.new_context(base_url=self.played.console_url, **fitting)
        context.set_default_timeout(TIMEOUT_MS)
        yield await context.new_page()
        await context.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def door(browser: Browser, played: Played) -> Door:
    return Door(browser, played)
