"""The sandbox as a rail under test: over HTTP, through a wire that can break."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from conformance.under_test import WORK, Fate, UnofferedHooks
from conformance.wire import BreakableWire
from pixconnect.features.sandbox import rules as commands
from pixconnect.features.sandbox.rail import SandboxConnection
from pixconnect.kernel.rules.rail import Order, Rail, RefundOrder
from support import sandbox as support
from support.postgres import Addresses
from support.sandbox import Sandbox


class SandboxUnderTest(UnofferedHooks):
    """The sandbox behind a breakable wire. The tests control it over another connection."""

    does = WORK
    timeout_s = 30.0  # the longest time that the sandbox allows to wait for a report
    known_key = "settle@sandbox.pix.example"
    unknown_key = "nobody@sandbox.pix.example"

    def __init__(self, sandbox: Sandbox, wire: BreakableWire, rail: Rail) -> None:
        self.rail: Rail = rail
        self.names: dict[str, str] = {}
        self._sandbox = sandbox
        self._wire = wire
        self._passed = timedelta(0)

    def make_order(self, fate: Fate = "settles", amount_cents: int = 100) -> Order:
        word = "settle" if fate == "settles" else "reject-ac03"
        return support.order(word, amount_cents=amount_cents, ordered_at=datetime.now(UTC) + self._passed)

    def make_refund_order(self, original_end_to_end_id: str, amount_cents: int) -> RefundOrder:
        ordered_at = datetime.now(UTC) + self._passed
        return support.refund_order(original_end_to_end_id, amount_cents=amount_cents, ordered_at=ordered_at)

    def pay_in(self, amount_cents: int, txid: str, payer_name: str = "Joana") -> Awaitable[str | None]:
        payer = commands.OutsidePayer(name=payer_name)
        transfer = support.outside_transfer(amount_cents=amount_cents, txid=txid, payer=payer)
        return _told(self._sandbox.control.call(commands.PAY, transfer))

    async def pay_in_two_steps(self, amount_cents: int, txid: str, fate: Fate) -> str | None:
        effect = "two_steps:30" if fate == "settles" else "cancel:AB03:30"
        await self._sandbox.control.call(commands.REPLACE_FAULTS, [commands.FaultRule(effect=effect, times=1)])
        return await self.pay_in(amount_cents, txid)

    def give_back(self, end_to_end_id: str, amount_cents: int) -> Awaitable[str | None]:
        name = self.names.get(end_to_end_id, end_to_end_id)
        asked = commands.OutsideReturn(end_to_end_id=name, amount_cents=amount_cents, reason="MD06")
        return _told(self._sandbox.control.call(commands.GIVE_BACK, asked))

    async def lose_next_message(self) -> None:
        self._wire.lose("message")

    async def lose_next_answer(self) -> None:
        self._wire.lose("answer")

    async def repeat_next_report(self) -> None:
        await self._sandbox.control.call(commands.REPLACE_FAULTS, [commands.FaultRule(effect="duplicate_answer", times=1)])

    @asynccontextmanager
    async def unavailable(self) -> AsyncIterator[None]:
        await self._wire.cut()
        yield
        await self._wire.mend()

    async def pass_time(self, span: timedelta) -> None:
        self._passed += span
        await self._sandbox.control.call(commands.SET_OFFSET, self._passed)


async def _told(arriving: Awaitable[commands.Arrival]) -> str | None:
    arrival = await arriving
    assert arrival.status != "PROCESSING", "the service's word never came"
    return arrival.code


@asynccontextmanager
async def open_sandbox(
    database: Addresses,
    monkeypatch: pytest.MonkeyPatch,
    open_rail: Callable[[SandboxConnection], Rail],
    *,
    two_steps_ms: int = 0,
) -> AsyncIterator[SandboxUnderTest]:
    monkeypatch.setattr("pixconnect.features.sandbox.network.outbox.REDELIVERED_AFTER_S", 0.3)
    async with support.running(database.service_url, two_steps_ms=two_steps_ms) as sandbox:
        port = int(sandbox.url.rpartition(":")[2])
        async with BreakableWire("127.0.0.1", port) as wire:
            connection = SandboxConnection(f"http://127.0.0.1:{wire.port}", support.SECRET)
            try:
                yield SandboxUnderTest(sandbox, wire, open_rail(connection))
            finally:
                await connection.close()
