"""A client of the service for Python programs: it renews its token, and takes answers out of their envelope.

It retries nothing but a request whose token was refused. Whatever has an effect carries an ``external_id``: when no answer
comes (``NoAnswer``, or a ``Refused`` whose ``may_have_happened`` is set), send the same again under the same ``external_id``.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

RENEWED_BEFORE_S = 30
"""A token is renewed this long before it expires."""
TIMEOUT_S = 30.0
"""How long the service may be silent; it answers sooner, whatever hangs."""

Json = Mapping[str, Any]


class NoAnswer(Exception):  # noqa: N818  it is what happened
    """No answer came, or none that can be read: what was asked for may have happened."""


class Refused(Exception):  # noqa: N818  it names what the service did
    """The service said no: ``code`` is for programs, ``message`` for people, ``request_id`` for questions about it."""

    def __init__(self, status: int, code: str, message: str, request_id: str) -> None:
        super().__init__(f"{code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.request_id = request_id

    @property
    def may_have_happened(self) -> bool:
        """Whether what was asked for may be done all the same."""
        return self.code in {"OUTCOME_UNKNOWN", "INTERNAL_ERROR"}


class Client:
    """One client of the service; threads may share it.

    Args:
        auth_url: The identity service's address; by default that of the API.
        monotonic_s: Seconds that never go back; a test gives its own.
    """

    def __init__(
        self,
        base_url: str,
        client_id: str,
        client_secret: str,
        *,
        auth_url: str | None = None,
        timeout_s: float = TIMEOUT_S,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._auth_url = (auth_url or base_url).rstrip("/")
        self._form = urlencode(
            [("grant_type", "client_credentials"), ("client_id", client_id), ("client_secret", client_secret)]
        ).encode()
        self._timeout_s = timeout_s
        self._monotonic_s = monotonic_s
        self._opener = _make_opener()
        self._lock = threading.Lock()
        self._token = ""
        self._renew_at_s = float("-inf")

    def create_charge(self, amount: int, key: str, *, external_id: str, **more: object) -> Json:
        """Ask to be paid, in cents, to one of your Pix keys; ``more`` are other fields of the request."""
        body = {"amount": amount, "key": key, "external_id": external_id, **more}
        return self.ask("POST", "/v1/connect/charge", body)

    def get_charge(self, external_id: str) -> Json:
        return self.ask("GET", f"/v1/connect/charge/external-id/{quote(external_id, safe='')}")

    def send_to_key(self, amount: int, key: str, key_type: str, *, external_id: str) -> Json:
        """Start a transfer to a Pix key."""
        body = {"amount": amount, "key": key, "key_type": key_type, "external_id": external_id}
        return self.ask("POST", "/v1/connect/transfer/key", body)

    def send_to_qr_code(self, amount: int, emv: str, *, external_id: str) -> Json:
        """Start a transfer to whoever a QR code names."""
        body = {"amount": amount, "emv": emv, "external_id": external_id}
        return self.ask("POST", "/v1/connect/transfer/qrcode", body)

    def get_transfer(self, external_id: str) -> Json:
        return self.ask("GET", f"/v1/connect/transfer/external-id/{quote(external_id, safe='')}")

    def ask(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401  an object, or a list of them
        """Send any request of the interface.

        Args:
            path: With its query, such as ``/v1/connect/ledger/balance``.

        Returns:
            ``data`` of the answer.

        Raises:
            Refused: The service said no.
            NoAnswer: It may or may not have happened.
        """
        token = self._good_token()
        try:
            return self._ask_with(token, method, path, body)["data"]
        except Refused as refusal:
            if refusal.status != 401:
                raise
        # Nothing was done: the token was refused before anything else was looked at.
        self._forget(token)
        return self._ask_with(self._good_token(), method, path, body)["data"]

    def _ask_with(self, token: str, method: str, path: str, body: object) -> Json:
        headers = {"Authorization": f"Bearer {token}"}
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(body).encode()
        return self._exchange(method, self._base_url + path, content, headers)

    def _good_token(self) -> str:
        # One thread asks for a new token, the others wait for it.
        with self._lock:
            if self._monotonic_s() >= self._renew_at_s:
                # Its lifetime counts from before it was asked for, since the answer may have been slow.
                asked_s = self._monotonic_s()
                headers = {"Content-Type": "application/x-www-form-urlencoded"}
                issued = self._exchange("POST", f"{self._auth_url}/v1/iam/users/login", self._form, headers)["data"]
                self._token = issued["access_token"]
                self._renew_at_s = asked_s + issued["expires_in"] - RENEWED_BEFORE_S
            return self._token

    def _forget(self, token: str) -> None:
        with self._lock:
            # Another thread may have renewed it already.
            if token == self._token:
                self._renew_at_s = float("-inf")

    def _exchange(self, method: str, url: str, content: bytes | None, headers: Mapping[str, str]) -> Json:
        request = Request(url, content, dict(headers), method=method)  # noqa: S310  the program's own address
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                return _read_success(answer.read())
        except HTTPError as error:
            # An answer with an error status is still an answer: it has an envelope to read.
            with error:
                raise _read_refusal(error.code, error.read()) from None
        except (OSError, HTTPException) as error:
            raise NoAnswer(f"{method} {url}: {error}") from error


def _make_opener() -> OpenerDirector:
    # Without a handler of redirects: a redirect is no answer of the service, and the token is for nobody else.
    opener = OpenerDirector()
    for one in (ProxyHandler(), HTTPHandler(), HTTPSHandler(), HTTPDefaultErrorHandler(), HTTPErrorProcessor()):
        opener.add_handler(one)
    return opener


def _read_success(content: bytes) -> Json:
    try:
        answer = json.loads(content)
        answer["data"]
    except (ValueError, KeyError, TypeError):
        raise NoAnswer("the answer is none of this service") from None
    return answer


def _read_refusal(status: int, content: bytes) -> Exception:
    try:
        answer = json.loads(content)
        error = answer["error"]
        return Refused(status, error["code"], error["message"], answer["meta"]["request_id"])
    except (ValueError, KeyError, TypeError):
        return NoAnswer(f"the answer, of status {status}, is none of this service")
