"""Error pages, without a service behind them."""

from types import SimpleNamespace
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from pixconnect.doors.console.application import refuse
from pixconnect.doors.console.visit import Assets, read_visit
from pixconnect.platform.base import errors


def _visit(language: str = "en") -> Any:
    parts: Any = SimpleNamespace(assets=Assets(), is_sandbox=True, version="0.1.0")
    headers = [(b"host", b"127.0.0.1:9080"), (b"accept-language", language.encode())]
    scope = dict(type="http", method="GET", path="/charges", query_string=b"", headers=headers)
    return read_visit(Request(scope), parts, None)


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (ConnectionRefusedError("10.0.0.7 port 5432"), 503, "The service is not answering at the moment"),
        (errors.OutcomeUnknown("nobody knows"), 504, "Outcome not known yet"),
        (errors.NotFound("id: there is no such charge"), 404, "Not found"),
        (errors.InsufficientFunds("amount: is more than the available funds"), 422, "That was refused"),
        # Shortly, because a page is expensive and a stranger may request very many.
        (errors.RateLimited("too many requests", 42), 429, "too many requests"),
        (errors.PayloadTooLarge("form: must have at most 9 bytes"), 413, "form: must have at most 9 bytes"),
        (HTTPException(400, "too many parts"), 400, "That request is not valid"),
        (RuntimeError("the password is hunter2"), 500, "Something went wrong on our side"),
    ],
)
def test_an_error_page_tells_nothing_of_our_inside(error: Exception, status: int, words: str) -> None:
    answer = refuse(_visit(), error)
    page = bytes(answer.body).decode()
    assert (answer.status_code, words in page) == (status, True)
    for inside in ("Traceback", "hunter2", "5432"):
        assert inside not in page


def test_what_goes_wrong_is_said_in_portuguese_too() -> None:
    assert "O serviço não está respondendo" in bytes(refuse(_visit("pt-BR"), TimeoutError()).body).decode()
