"""The sandbox of the run, for one process: a factory of holders, and the shared clock and faults."""

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
"""Timeout for moving the clock, which processes all work that becomes due."""


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
        """Hold the sandbox for a test, shared or exclusively; afterwards reset its clock and faults."""
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
        made = self._client.sandbox.open_holder(name=name, tax_id=tax_id, balance=balance, scopes=scopes)
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
    """The clock that controls expiry, retries and refund windows."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def now(self) -> datetime:
        return self._client.sandbox.clock().now

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> datetime:
        """Advance the clock. Everything that becomes due is processed before the call returns."""
        span = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        return self._client.sandbox.advance_clock(round(span.total_seconds())).now


class Faults:
    """Faults of the simulated network. The first matching rule applies."""

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
        """Add a rule: its effect (such as ``reject:AC03``), the messages it matches, and how often it applies."""
        match = FaultMatch(key=key, amount=amount, operation=None if operation is None else FaultOperation(operation))
        self._rules.append(FaultRule(effect=effect, match=match, probability=probability, times=times))
        self._client.sandbox.replace_faults(self._rules)

    def clear(self) -> None:
        self._rules.clear()
        self._client.sandbox.clear_faults()
