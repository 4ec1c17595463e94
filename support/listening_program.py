"""An integrator's program: it receives webhooks, keeps them, and gives prepared answers."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from support.listener import Answer, LoopbackServer
from support.waiting import PATIENCE_S


class Program(LoopbackServer):
    def __init__(self) -> None:
        self.statuses: list[int] = []  # the next answers; then 204
        self.posts: list[tuple[dict[str, str], bytes]] = []
        self._news = threading.Condition()
        super().__init__(self._take, "/", keeps=False)

    def _take(self, request: BaseHTTPRequestHandler, body: bytes) -> Answer:
        with self._news:
            self.posts.append(({name.lower(): value for name, value in request.headers.items()}, body))
            status = self.statuses.pop(0) if self.statuses else 204
            self._news.notify_all()
        return status, {}, b""

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.posts]

    def wait_for(self, count: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: len(self.posts) >= count, PATIENCE_S), f"only {len(self.posts)} posts came"


@contextmanager
def a_program() -> Iterator[Program]:
    program = Program()
    yield program
    program.close()
