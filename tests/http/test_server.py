"""The server around the connections."""

import asyncio
import socket

import uvloop

from pixconnect.http.asgi import Receive, Scope, Send
from pixconnect.http.listening import open_listening
from pixconnect.http.server import ACCEPTED_AT_ONCE, Server

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
