"""``edge_server.py SERVER``: a bare application on one of the servers that ``edge`` compares; prints its port."""

import asyncio
import socket
import sys
from typing import Any

import uvicorn
import uvloop
from aiohttp import web

from pixconnect.http.asgi import Receive, Scope, Send
from pixconnect.http.server import Server

HEADERS = [(b"content-type", b"application/json"), (b"cache-control", b"no-store"), (b"content-length", b"2")]


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Read the body, answer two octets."""
    while scope["method"] == "POST" and (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": b"{}"})


async def answer_aiohttp(request: web.Request) -> web.Response:
    """The same, as aiohttp has it."""
    await request.read()
    return web.Response(body=b"{}", content_type="application/json", headers={"cache-control": "no-store"})


async def main(server: str) -> None:
    """Serve until killed."""
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        print(listener.getsockname()[1], flush=True)
        if server == "ours":
            await Server(answer).serve([listener])
        elif server == "aiohttp":
            application = web.Application(client_max_size=64 * 1024)
            application.router.add_route("*", "/{path:.*}", answer_aiohttp)
            runner = web.AppRunner(application, access_log=None)
            await runner.setup()
            await web.SockSite(runner, listener).start()
            await asyncio.Event().wait()
        else:
            http: Any = server.removeprefix("uvicorn_")
            config = uvicorn.Config(
                answer,
                loop="none",
                http=http,
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
            )
            await uvicorn.Server(config).serve([listener])


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(sys.argv[1]))
