"""The run's sandbox as one process sees it: it makes holders, and has what there is only once, the clock and the faults."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from pixconnect_client import Client, FaultMatch, FaultOperation, FaultRule
from pixconnect_client.testing import service
from pixconnect_client.testing.holder import Pix
from pixconnect_client.testing.lock import hold_sandbox
from pixconnect_client.testing.service import Found, Run

_TIMEOUT_S = 60.0
"""Moving the clock takes as long as the work that falls due on the way."""


class Sandbox:
    """Args: the run, and its service."""

    def __init__(self, run: Run, found: Found) -> None:
        self.base_url = found.base_url
        self.auth_url = found.auth_url
        self._run = run
        self._client = Client(
            found.base_url, found.client_id, found.client_secret, auth_url=found.auth_url, timeout_s=_TIMEOUT_S
        )

    @contextmanager
    def hold(self, *, is_alone: bool) -> Generator[None]:
        """Hold it for a test, with others or alone; afterwards its clock and its network are as usual."""
        with hold_sandbox(self._run, self._restore, is_alone=is_alone):
            yield

    def open_holder(
        self,
        *,
        name: str | None = None,
        tax_id: str | None = None,
        balance: int | None = None,
        scopes: Sequence[str] | None = None,
    ) -> Pix:
        made = self._client.sandbox.open_holder(name=name, tax_id=tax_id, balance=balance or None, scopes=scopes)
        if made.holder_id > service.HOLDERS_KEPT_MAX:
            service.wear_out(self._run)
        client = Client(self.base_url, made.client_id, made.client_secret, auth_url=self.auth_url, timeout_s=_TIMEOUT_S)
        return Pix(client, made, base_url=self.base_url, auth_url=self.auth_url)

    def close(self) -> None:
        self._client.close()

    def _restore(self) -> None:
        self._client.sandbox.clear_faults()
        self._client.sandbox.reset_clock()


class Clock:
    """The time by which charges expire, retries are due, and refund windows close."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def now(self) -> datetime:
        return self._client.sandbox.clock().now

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> datetime:
        """Move it forward; all that falls due on the way is done when this returns."""
        span = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        return self._client.sandbox.advance_clock(round(span.total_seconds())).now


class Faults:
    """How the network misbehaves: of the rules that were added, the first that matches wins."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._rules: list[FaultRule] = []

    def add(
        self,
        effect: str,
        *,
        key: str | None = None,
        amount: int | None = None,
        operation: str | None = None,
        probability: float | None = None,
        times: int | None = None,
    ) -> None:
        """Add a rule: what happens (``reject:AC03``, ``no_answer``), to which messages, and how often."""
        match = FaultMatch(key=key, amount=amount, operation=None if operation is None else FaultOperation(operation))
        self._rules.append(FaultRule(effect=effect, match=match, probability=probability, times=times))
        self._client.sandbox.replace_faults(self._rules)

    def clear(self) -> None:
        self._rules.clear()
        self._client.sandbox.clear_faults()
