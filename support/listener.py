"""Webhook receivers as threads of the tests."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from support.waiting import PATIENCE_S


class Listener:
    """A webhook receiver that outlives the other processes: received events by holder, in order.

    Events are posted to ``/HOLDER``, the webhooks of the holder's key to ``/HOLDER/pix``.

    Attributes:
        is_deaf: It closes connections without an answer.
    """

    def __init__(self) -> None:
        self.heard: dict[int, list[tuple[int, bytes]]] = {}
        self.told: dict[int, list[dict[str, Any]]] = {}
        self._news = threading.Condition()
        self.is_deaf = False
        heard, told, news = self.heard, self.told, self._news

        def is_deaf() -> bool:
            return self.is_deaf

        class Hook(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if is_deaf():
                    self.close_connection = True
                    return
                read, (holder, *rest) = json.loads(body), self.path[1:].split("/")
                if rest == ["pix"]:
                    with news:
                        told.setdefault(int(holder), []).extend(read["pix"])
                        news.notify_all()
                else:
                    heard.setdefault(int(holder), []).append((read["id"], body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def handle(self) -> None:
                with suppress(ConnectionError):  # the sender has died
                    super().handle()

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  as it is called
                """Write no log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def wait_until_told(self, holder_id: int, pix: dict[str, Any]) -> None:
        told = self.told.setdefault(holder_id, [])
        with self._news:
            assert self._news.wait_for(lambda: pix in told, timeout=PATIENCE_S), (pix, told)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def open_hook(answer: Callable[[bytes], tuple[int, bytes]]) -> Iterator[str]:
    """The address of a receiver that answers each request with this status and text."""

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status, text = answer(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  as it is called
            """Write no log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/webhooks"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
