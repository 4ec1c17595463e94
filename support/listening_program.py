"""An integrator's program: it receives webhooks, keeps them, and gives prepared answers."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from support.waiting import PATIENCE_S


class Program:
    def __init__(self) -> None:
        self.statuses: list[int] = []
        """The next answers; then 204."""
        self.posts: list[tuple[dict[str, str], bytes]] = []
        self._news = threading.Condition()
        program = self

        class Hook(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with program._news:
                    program.posts.append(({name.lower(): value for name, value in self.headers.items()}, body))
                    status = program.statuses.pop(0) if program.statuses else 204
                    program._news.notify_all()
                self.send_response(status)
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  as it is called
                """Write no log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.posts]

    def wait_for(self, count: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: len(self.posts) >= count, PATIENCE_S), (
                f"only {len(self.posts)} posts came"
            )

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def a_program() -> Iterator[Program]:
    program = Program()
    yield program
    program.close()
