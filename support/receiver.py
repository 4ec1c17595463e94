"""Run a receiver of the receivers' guide: ``python receiver.py NAME CODE``; it prints its port.

The guide's receivers take ``DATABASE`` and ``WEBHOOK_SECRET`` from their environment.
"""

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from wsgiref.simple_server import WSGIRequestHandler, make_server


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        pass


def _load(code: Path) -> ModuleType:
    module = ModuleType("shop")
    sys.modules["shop"] = module
    exec(compile(code.read_text(encoding="utf-8"), str(code), "exec"), module.__dict__)  # noqa: S102 - the page's own
    return module


def _tell(port: int) -> None:
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()


def _serve_wsgi(app: object) -> None:
    server = make_server("127.0.0.1", 0, app, handler_class=_Quiet)  # pyright: ignore - each framework has its own type
    _tell(server.server_port)
    server.serve_forever()


def run_starlette(code: Path) -> None:
    import uvicorn  # noqa: PLC0415 - each program imports its own framework alone

    listener = socket.create_server(("127.0.0.1", 0))
    _tell(listener.getsockname()[1])
    uvicorn.Server(uvicorn.Config(_load(code).app, log_level="error")).run(sockets=[listener])


def run_django(code: Path) -> None:
    import django  # noqa: PLC0415 - as above
    from django.conf import settings  # noqa: PLC0415 - as above
    from django.core.handlers.wsgi import WSGIHandler  # noqa: PLC0415 - as above
    from django.db import connection  # noqa: PLC0415 - as above
    from django.urls import path  # noqa: PLC0415 - as above

    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["DATABASE"]}
    settings.configure(DATABASES={"default": database}, ROOT_URLCONF="shop_urls", ALLOWED_HOSTS=["*"], SECRET_KEY="a test's")
    django.setup()
    shop, urls = _load(code), ModuleType("shop_urls")
    # In a project its migrations create this table.
    with connection.schema_editor() as editor:
        for model in (shop.SeenEvent, shop.Order, shop.Job):
            editor.create_model(model)
    vars(urls)["urlpatterns"] = [path("pix", shop.receive)]
    sys.modules["shop_urls"] = urls
    _serve_wsgi(WSGIHandler())


RUNNERS: dict[str, Callable[[Path], None]] = {
    "flask": lambda code: _serve_wsgi(_load(code).app), "starlette": run_starlette, "django": run_django,
}  # fmt: skip

if __name__ == "__main__":
    RUNNERS[sys.argv[1]](Path(sys.argv[2]))
