"""The server around the connections."""

import asyncio
import socket

import pytest
import uvloop

from pixconnect.platform.http import server as server_module
from pixconnect.platform.http.exchange import Receive, Scope, Send
from pixconnect.platform.http.listening import open_listening
from pixconnect.platform.http.server import ACCEPTED_AT_ONCE, Server
from support.waiting import until

NEWCOMERS_COUNT = 64


async def no_application(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("nothing was sent")


def test_many_newcomers_are_taken_in_each_turn_of_the_loop() -> None:
    async def run() -> int:
        (listening,) = open_listening("127.0.0.1", 0, 1, port_setting="PORT")
        newcomers = [socket.create_connection(listening.getsockname()) for _ in range(NEWCOMERS_COUNT)]
        server, is_ready = Server(no_application), asyncio.Event()
        serving = asyncio.create_task(server.serve([listening], on_ready=is_ready.set))
        await is_ready.wait()
        for _ in range(2 * NEWCOMERS_COUNT // ACCEPTED_AT_ONCE):
            await asyncio.sleep(0)
        taken_count = len(server.connections.all)
        for newcomer in newcomers:
            newcomer.close()
        server.stop()
        await serving
        return taken_count

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(run()) == NEWCOMERS_COUNT


async def answer_nothing(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def test_the_first_answer_after_a_rest_has_the_date_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    date = "before"
    monkeypatch.setattr(server_module, "formatdate", lambda usegmt: date)
    (listening,) = open_listening("127.0.0.1", 0, 1, port_setting="PORT")
    address = listening.getsockname()
    server, is_ready = Server(answer_nothing), asyncio.Event()
    serving = asyncio.create_task(server.serve([listening], on_ready=is_ready.set))
    await is_ready.wait()
    heads: list[bytes] = []
    for now in ("first", "second"):
        date = now
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()
        # Without connections it rests.
        await until(lambda: not server.connections.all)
    server.stop()
    await serving
    assert [b"date: first" in heads[0], b"date: second" in heads[1]] == [True, True]
