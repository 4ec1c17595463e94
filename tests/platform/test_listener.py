"""A listener receives notifications, and reconnects."""

import asyncio

from pixconnect.platform.notifier import keep_listening
from pixconnect.platform.pool import Connection, connect
from support.postgres import Addresses


async def test_it_hears_and_listens_again_after_its_connection_was_ended(database: Addresses) -> None:
    opened: list[Connection] = []
    heard: asyncio.Queue[str] = asyncio.Queue()
    joined: asyncio.Queue[None] = asyncio.Queue()

    async def join() -> Connection:
        opened.append(await connect(database.service_url, role="pixconnect_service", schema="pixconnect", name="listener"))
        return opened[-1]

    async def stay(lost: asyncio.Event) -> None:
        joined.put_nowait(None)
        await lost.wait()

    listening = asyncio.create_task(keep_listening(join, "test_news", heard.put_nowait, stay))
    speaker = await connect(database.service_url, role="pixconnect_service", schema="pixconnect", name="speaker")
    async with asyncio.timeout(60):
        for number in range(2):
            await joined.get()
            await speaker.execute(f"notify test_news, 'news {number}'")
            assert await heard.get() == f"news {number}"
            assert len(opened) == number + 1
            opened[-1].terminate()
    await speaker.close()
    listening.cancel()


async def test_a_database_that_is_away_is_asked_again() -> None:
    tries = 0
    tried_again = asyncio.Event()

    async def fail() -> Connection:
        nonlocal tries
        tries += 1
        if tries > 1:
            tried_again.set()
        raise ConnectionRefusedError

    async def stay(_: asyncio.Event) -> None: ...

    listening = asyncio.create_task(keep_listening(fail, "test_news", lambda _: None, stay))
    async with asyncio.timeout(60):
        await tried_again.wait()
    listening.cancel()
