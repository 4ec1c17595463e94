"""Callers of many holders, through both APIs, and the book of their requests and answers."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx2
import msgspec
from msgspec import Struct, field, structs

from support.chaos.history import NO_ANSWER, NOTHING_DONE, UNKNOWN, Call, CallKind, digest_of
from support.whole_installation import Account

_TIMEOUT_S: Final = 20.0
_REPEATED_AFTER_S: Final = (0.05, 0.6)
_FUNDS_CENTS: Final = 100_000_000
"""A first deposit, unless the holder is poor. Each amount is used only once, so it identifies an entry."""
_OUTSIDE: Final = ("settle", "slow", "silent", "lost", "reject-ac07")
_OUTSIDE_ACCOUNTS: Final = ("1001", "1003", "1004", "2001")
_EVER: Final = "initial_date=2020-01-01T00:00:00Z&final_date=2099-12-31T23:59:59Z"
_STATEMENT_LINES_MAX: Final = 2_000  # longer statements are not read, because reading them would dominate the load
_LATELY: Final = 20
_LOOKED_AFTER: Final = 0.3
_TWICE: Final = 0.1
_BELIEVED: Final = 0.2
_WEIGHTS: Final = dict(
    transfer=5, transfer_by_account=2, transfer_by_book=3, be_paid=4, charge=2, cob=2, pay=4, refund=3, deposit=1, repeat=2,
    read_balance=5, read_statement=1, look=3,
)  # fmt: skip
"""How often each act is chosen."""


class Book:
    """A file of all answers, each written before the caller's next request."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("ab")
        self._lock = threading.Lock()
        self._encoder = msgspec.json.Encoder()
        self.counts: Counter[str] = Counter()

    def add(self, call: Call) -> None:
        with self._lock:
            self._file.write(self._encoder.encode(call) + b"\n")
            self._file.flush()
            self.counts[f"{call.kind} {call.status or 'unanswered'}"] += 1

    def close(self) -> None:
        self._file.close()


def read_book(file: Path) -> list[Call]:
    """Read the requests of a book. A request without an answer has not ended."""
    return msgspec.json.decode(b"[" + b",".join(file.read_bytes().splitlines()) + b"]", type=list[Call])


class Purse(Struct):
    """What the callers of one holder share, so that several act on the same resources.

    Attributes:
        others: Holders that it pays on the books.
        is_poor: Its funds hardly cover its next transfer, so its callers compete for the last cents.
        received: Refundable payments with their amounts.
        sent: Transfers to look at.
        codes: Codes of unpaid charges.
        asked: Requests that may be repeated.
    """

    account: Account
    others: Sequence[Account]
    is_poor: bool
    received: list[tuple[str, int]] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    codes: list[tuple[str, int]] = field(default_factory=list)
    asked: list[_Request] = field(default_factory=list)

    def take_code(self) -> tuple[str, int] | None:
        """Take the code of a charge for one caller alone."""
        try:
            return self.codes.pop(0)
        except IndexError:
            return None


class _Request(Struct, frozen=True):
    kind: CallKind
    method: str
    path: str
    body: dict[str, Any]
    name: str
    amount_cents: int


class Caller:
    """A caller of a holder, which makes one request after the other until each is answered.

    Some requests are made twice at once over separate connections. Some callers accept a 503 and do not repeat. Each
    amount is used once over all callers. ``weights`` changes how often each act is chosen.
    """

    def __init__(
        self,
        base_url: str,
        purse: Purse,
        book: Book,
        chance: Random,
        amounts: count[int],
        weights: Mapping[str, int] | None = None,
    ) -> None:
        self._purse, self._account, self._book = purse, purse.account, book
        self._chance, self._amounts = chance, amounts
        self._weights = dict(_WEIGHTS) | dict(weights or {})
        self._clients = [httpx2.Client(base_url=base_url, timeout=_TIMEOUT_S, trust_env=False) for _ in "ab"]
        self._token = ""
        self._names = count(1)
        self._prefix = f"chaos{chance.getrandbits(64):016x}"
        self._is_long = False

    def run(self, is_over: Callable[[], bool], pause_s: float) -> None:
        acts = [getattr(self, f"_{act}") for act, weight in self._weights.items() for _ in range(weight)]
        while not self._deposit():
            """Nothing can be sent without funds."""
        while not is_over():
            self._chance.choice(acts)()
            # Callers often compare the balance right after an answer.
            if self._chance.random() < _LOOKED_AFTER:
                self._read_balance()
            time.sleep(self._chance.uniform(0, 2 * pause_s))
        for client in self._clients:
            client.close()

    def _deposit(self) -> bool:
        amount_cents = next(self._amounts) + (0 if self._purse.is_poor else _FUNDS_CENTS)
        call, _ = self._ask("deposit", "POST", "/sandbox/v1/deposits", {"amount": amount_cents}, "", amount_cents)
        return call.status == 200

    def _be_paid(self) -> None:
        amount_cents = next(self._amounts)
        self._pay_with(0, {"key": self._account.key, "amount": amount_cents}, amount_cents)

    def _pay(self) -> None:
        """Pay a charge from outside, sometimes twice at once: a payment has no name that makes a repetition the same."""
        if (code := self._purse.take_code()) is not None:
            emv, amount_cents = code
            body = {"emv": emv, "amount": amount_cents}
            with self._twice(lambda: self._pay_with(1, body, amount_cents)):
                self._pay_with(0, body, amount_cents)

    def _pay_with(self, client: int, body: dict[str, Any], amount_cents: int) -> None:
        call, told = self._ask("payment", "POST", "/sandbox/v1/payments", body, "", amount_cents, client)
        if call.state == "CONFIRMED":
            self._purse.received.append((told["end_to_end_id"], amount_cents))

    def _transfer(self) -> None:
        key = f"{self._chance.choice(_OUTSIDE)}@sandbox.pix.example"
        self._insist("transfer", "/v1/connect/transfer/key", {"key": key, "key_type": "EMAIL"})

    def _transfer_by_account(self) -> None:
        party = dict(account_number=self._chance.choice(_OUTSIDE_ACCOUNTS), account_type="CHECKING", branch="0001")
        party |= dict(ispb="99999004", name="Joana Prado", tax_id="12345678909")
        self._insist("transfer", "/v1/connect/transfer/manual", {"credit_party": party})

    def _transfer_by_book(self) -> None:
        key = self._chance.choice(self._purse.others).key
        self._insist("transfer", "/v1/connect/transfer/key", {"key": key, "key_type": "EMAIL"})

    def _charge(self) -> None:
        amount_cents = next(self._amounts)
        told = self._insist("charge", "/v1/connect/charge", {"key": self._account.key}, amount_cents)
        if told:
            self._purse.codes.append((told["emvqrcps"], amount_cents))

    def _cob(self) -> None:
        """Create a charge by the central bank's API, and read its id by the other one."""
        amount_cents, txid = next(self._amounts), self._name()
        body = {
            "valor": {"original": f"{amount_cents // 100}.{amount_cents % 100:02d}"},
            "chave": self._account.key,
            "calendario": {"expiracao": 40 * 86_400},
        }
        told = self._until_answered(_Request("charge", "PUT", f"/v2/cob/{txid}", body, txid, amount_cents))
        if "pixCopiaECola" in told:
            self._purse.codes.append((told["pixCopiaECola"], amount_cents))

    def _refund(self) -> None:
        """Refund a part, half or all of a recent payment. Together the refunds soon exceed it."""
        if self._purse.received:
            name, amount_cents = self._chance.choice(self._purse.received[-_LATELY:])
            part_cents = self._chance.choice((self._chance.randint(1, 40), (amount_cents + 1) // 2, amount_cents))
            self._insist("refund", "/v1/connect/refund", {"end_to_end_id": name}, part_cents)

    def _repeat(self) -> None:
        """Repeat an earlier request under its name, which may still be running."""
        if self._purse.asked:
            asked = self._chance.choice(self._purse.asked[-_LATELY:])
            self._ask(asked.kind, asked.method, asked.path, asked.body, asked.name, asked.amount_cents)

    def _read_balance(self) -> None:
        self._ask("balance", "GET", "/v1/connect/ledger/balance")

    def _read_statement(self) -> None:
        if not self._is_long:
            call, _ = self._ask("statement", "GET", f"/v1/connect/ledger/statement?{_EVER}")
            self._is_long = call.lines_count > _STATEMENT_LINES_MAX

    def _look(self) -> None:
        if self._purse.sent:
            thing_id = self._chance.choice(self._purse.sent[-_LATELY:])
            self._ask("look", "GET", f"/v1/connect/transfer/id/{thing_id}", name=str(thing_id))

    def _insist(self, kind: CallKind, path: str, body: dict[str, Any], amount_cents: int | None = None) -> dict[str, Any]:
        amount_cents = amount_cents or next(self._amounts)
        name = self._name()
        request = _Request(kind, "POST", path, body | dict(amount=amount_cents, external_id=name), name, amount_cents)
        # Noted before the request, since another caller of the holder may repeat it at the same time.
        self._purse.asked.append(request)
        with self._twice(lambda: self._until_answered(request, 1)):
            told = self._until_answered(request)
        if kind == "transfer" and told:
            self._purse.sent.append(told["id"])
        return told

    @contextmanager
    def _twice(self, second: Callable[[], object]) -> Iterator[None]:
        """Sometimes do the same on another connection at the same time."""
        if self._chance.random() > _TWICE:
            yield
            return
        beside = threading.Thread(target=second, daemon=True)
        beside.start()
        yield
        beside.join()

    def _until_answered(self, asked: _Request, client: int = 0) -> dict[str, Any]:
        while True:
            call, told = self._ask(asked.kind, asked.method, asked.path, asked.body, asked.name, asked.amount_cents, client)
            is_believed = call.status == 503 and self._chance.random() < _BELIEVED
            if is_believed or call.status not in UNKNOWN | NOTHING_DONE:
                return told if call.status in {200, 201} else {}
            time.sleep(self._chance.uniform(*_REPEATED_AFTER_S))

    def _ask(
        self,
        kind: CallKind,
        method: str,
        path: str,
        body: object = None,
        name: str = "",
        amount_cents: int = 0,
        client: int = 0,
    ) -> tuple[Call, dict[str, Any]]:
        """Make one request by one of the two clients, and write its result into the book."""
        call = Call(
            holder_id=self._account.holder_id, kind=kind, name=name, amount_cents=amount_cents,
            began_s=time.monotonic(), ended_s=1e12, status=NO_ANSWER,
        )  # fmt: skip
        told: dict[str, Any] = {}
        try:
            headers = {"Authorization": f"Bearer {self._login(client)}"}
            response = self._clients[client].request(method, path, json=body, headers=headers)
            answer = response.json() if response.content else {}
            call = structs.replace(call, ended_s=time.monotonic(), status=response.status_code)
            told = answer.get("data", answer)
            call = structs.replace(call, **_read_told(kind, told) if call.status in {200, 201} else _read_refused(answer))
            if call.status == 401:
                self._token = ""
        except httpx2.TransportError:
            """The outcome is unknown."""
        except _NoTokenError:
            call = structs.replace(call, ended_s=time.monotonic(), status=401)
        self._book.add(call)
        return call, told

    def _login(self, client: int) -> str:
        if not self._token:
            form = dict(grant_type="client_credentials", client_id=self._account.client_id)
            form |= dict(client_secret=self._account.client_secret)
            try:
                response = self._clients[client].post("/v1/iam/users/login", data=form)
            except httpx2.TransportError as error:
                raise _NoTokenError from error
            if response.status_code != 200:
                raise _NoTokenError
            self._token = response.json()["data"]["access_token"]
        return self._token

    def _name(self) -> str:
        return f"{self._prefix}{next(self._names):08}"


def _read_told(kind: CallKind, told: Any) -> dict[str, Any]:
    if kind == "balance":
        return dict(cents=told["current_funds"], reserved_cents=told["current_funds"] - told["available_funds"])
    if kind == "statement":
        changes = [
            (line["amount"] if line["impact_type"] == "IN" else -line["amount"], line["running_balance"])
            for line in told["lines"]
        ]
        return dict(cents=told["closing_balance"], lines_count=len(changes), digest=digest_of(changes))
    return dict(id=told.get("id"), state=str(told.get("status", "")))


def _read_refused(answer: dict[str, Any]) -> dict[str, Any]:
    error = answer.get("error", answer)
    return dict(code=str(error.get("code", error.get("type", ""))), said=str(error.get("message", error.get("detail", ""))))


class _NoTokenError(Exception):
    """The identity service could not be reached, so nothing was requested."""
