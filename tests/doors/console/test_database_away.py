"""The console while its database is away: a clear page with and without a script, and the same session afterwards."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from pixconnect.platform.local.embedded_postgres import EmbeddedPostgres
from support.browser import TIMEOUT_MS, needs_chromium
from support.installation import PIXCONNECT, Installation, run_verb
from support.ports import reserved_port

pytestmark = [*needs_chromium, pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("console acts")]


async def test_a_page_says_that_the_database_is_away_and_returns(home_folder: Path, browser: Browser) -> None:
    postgres = EmbeddedPostgres(home_folder, durable=False)
    await postgres.start()
    try:
        with reserved_port() as port:
            settings = dict(
                database_url=postgres.login_url,
                console_database_url=postgres.console_url,
                console_port=str(port),
                rail_url="http://127.0.0.1:9",
                secret_key=base64.urlsafe_b64encode(b"s" * 32).decode(),
            )
            own = settings | dict(owner_database_url=postgres.owner_url)
            for verb in ("migrate",), ("operator", "link"):
                said = await asyncio.to_thread(run_verb, home_folder, *verb, **own)
                assert said.returncode == 0, said.stderr
            with Installation(home_folder, (*PIXCONNECT, "console"), **settings) as console:
                await asyncio.to_thread(console.wait_for, '"ready"')
                address: Any = dict(base_url=f"http://127.0.0.1:{port}", locale="en-US")
                context = await browser.new_context(**address)
                context.set_default_timeout(TIMEOUT_MS)
                page = await context.new_page()
                await page.goto(f"/enter?token={said.stdout.split()[-1]}")
                await page.wait_for_url(f"http://127.0.0.1:{port}/")
                await postgres.stop()
                for path in ("/charges", "/search?q=1", "/"):
                    answer = await page.goto(path)
                    assert answer is not None
                    assert answer.status == 503, path
                    await _expect_clear(page)
                # A visitor who has not signed in sees no more than that.
                async with await browser.new_context(**address | dict(java_script_enabled=False)) as other:
                    door = await other.new_page()
                    await door.goto("/sign-in")
                    await door.fill("[name=client_id]", "somebody")
                    await door.fill("[name=client_secret]", "x" * 43)
                    await door.press("[name=client_secret]", "Enter")
                    await _expect_clear(door)
                await postgres.start()
                async with asyncio.timeout(TIMEOUT_MS / 1000):
                    # Requests before the console has seen the database again are refused at once.
                    while (answer := await page.goto("/charges")) is None or answer.status == 503:  # noqa: ASYNC110  no event to await
                        await asyncio.sleep(0.1)
                assert answer.status == 200
                await expect(page.get_by_role("heading", level=1)).to_have_text("Charges")
                await context.close()
    finally:
        await postgres.stop()


async def _expect_clear(page: Page) -> None:
    await expect(page.get_by_role("alert")).to_contain_text("The service is not answering at the moment")
    await expect(page.get_by_role("alert")).to_contain_text("Nothing was changed")
    content = await page.content()
    assert "Traceback" not in content
    assert "asyncpg" not in content
