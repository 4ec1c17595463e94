"""Webhook receivers as threads of the tests."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from support.waiting import PATIENCE_S

Answer = tuple[int, Mapping[str, str], bytes]


class LoopbackServer:
    """Serves HTTP on loopback in threads, closing each connection unless it ``keeps`` them.

    ``answer`` answers a request with its body, or returns None to close the connection without an answer.
    """

    def __init__(
        self, answer: Callable[[BaseHTTPRequestHandler, bytes], Answer | None], path: str = "", *, keeps: bool = True
    ) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1" if keeps else "HTTP/1.0"

            def do_POST(self) -> None:
                answered = answer(self, self.rfile.read(int(self.headers.get("Content-Length", "0"))))
                if answered is None:
                    self.close_connection = True
                    return
                status, headers, content = answered
                self.send_response(status)
                for name, value in ({"Content-Length": str(len(content))} | dict(headers)).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST  # noqa: N815  as it is called

            def handle(self) -> None:
                with suppress(ConnectionError):  # the client has died
                    super().handle()

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  as it is called
                """Write no log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}{path}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Listener(LoopbackServer):
    """A webhook receiver that outlives the other processes: received events by holder, in order.

    Events are posted to ``/HOLDER``, the webhooks of the holder's key to ``/HOLDER/pix``. A deaf one gives no answers.
    """

    def __init__(self) -> None:
        self.heard: dict[int, list[tuple[int, bytes]]] = {}
        self.told: dict[int, list[dict[str, Any]]] = {}
        self._news = threading.Condition()
        self.is_deaf = False
        super().__init__(self._take)

    def _take(self, request: BaseHTTPRequestHandler, body: bytes) -> Answer | None:
        if self.is_deaf:
            return None
        read, (holder, *rest) = json.loads(body), request.path[1:].split("/")
        if rest == ["pix"]:
            with self._news:
                self.told.setdefault(int(holder), []).extend(read["pix"])
                self._news.notify_all()
        else:
            self.heard.setdefault(int(holder), []).append((read["id"], body))
        return 200, {}, b""

    def wait_until_told(self, holder_id: int, pix: dict[str, Any]) -> None:
        told = self.told.setdefault(holder_id, [])
        with self._news:
            assert self._news.wait_for(lambda: pix in told, timeout=PATIENCE_S), (pix, told)


@contextmanager
def open_hook(answer: Callable[[bytes], tuple[int, bytes]]) -> Iterator[str]:
    """The address of a receiver that answers each request with this status and text."""

    def answer_body(_: BaseHTTPRequestHandler, body: bytes) -> Answer:
        status, text = answer(body)
        return status, {}, text

    server = LoopbackServer(answer_body, "/webhooks", keeps=False)
    try:
        yield server.url
    finally:
        server.close()
