"""An account at an institution as a rail under test: over TLS to a simulated bank, through a wire that can break.

Refunds and transfers end by themselves: they settle at the bank within moments, or are rejected for one certain key.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

from msgspec import Struct, structs

from conformance.under_test import Disturbance, Fate, Remembered, UnofferedHooks, Work
from conformance.wire import BreakableWire
from pixconnect.features.institutions.opener import open_institution
from pixconnect.features.institutions.rail import InstitutionRail
from pixconnect.features.institutions.rules import institution as institutions
from pixconnect.features.institutions.rules import rail_memory
from pixconnect.features.institutions.service.sweep import as_report
from pixconnect.features.pix_api.service import key_webhook as key_webhook_usecases
from pixconnect.kernel.rules.br_code import format_static_br_code
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY
from pixconnect.kernel.rules.rail import CreditReport, DirectoryEntry, Order, Rail, RailUnavailable, RefundOrder
from pixconnect.platform.adapters.system import SystemEntropy
from support import sandbox as support
from support.account_there import open_account_there
from support.faces import ACCOUNT, KEY, PAYEE, Bank, Control
from support.records import outside_party
from support.service import read_funds
from support.two_books import MonthClock, There

_SPAN = timedelta(days=2)
_ENDS_EVERY_S = 0.02
_LAG = timedelta(hours=1)
_NAMING_KEY = b"a key of a test"
_REFUSING_KEY = "closed@pix.example"  # the returns of its orders are made by the bank, so the payee does not matter


class Steps(Struct):
    """The rail's memory, kept in this process. Like a database row, a record only changes if it is as it was read."""

    of: dict[str, rail_memory.RailStep] = {}
    names_first: bool = False
    fault: str | None = None  # the disturbance of the next call that moves money
    set_fault: Callable[[str], None] | None = None

    async def open(self, order_names: Sequence[str]) -> dict[str, rail_memory.RailStep]:
        return {name: self.of[name] for name in order_names if name in self.of}

    async def take(self, before: rail_memory.RailStep, after: rail_memory.RailStep) -> bool:
        if self.of[before.order_name] != before:
            return False
        self.of[before.order_name] = after
        if after.state == "calling" and self.fault is not None and self.set_fault is not None:
            self.set_fault(self.fault)
            self.fault = None
        return True

    async def count_in_flight(self, since: datetime) -> int:
        """None, because the suite submits groups, and an institution may advise to wait after each order."""
        return 0

    async def find_loss(self) -> datetime | None:
        return None

    def mint(self, order: Order | RefundOrder, clock: MonthClock) -> None:
        name = order.end_to_end_id if isinstance(order, Order) else order.return_id
        step = rail_memory.RailStep(
            order_name=name,
            institution_id=1,
            kind="refund",
            holder_id=1,
            original_end_to_end_id=None,
            amount_cents=order.amount_cents,
            name_there=rail_memory.name_at_institution(_NAMING_KEY, 1, "refund", 1, name),
            state="minted",
            created_at=clock.real_now(),
        )
        if isinstance(order, Order):
            payee = rail_memory.name_payee(order.credit_party, is_by_key=True)
            there = rail_memory.name_at_institution(_NAMING_KEY, 1, "order", 1, name)
            state: rail_memory.State = "new" if self.names_first else "minted"
            self.of[name] = structs.replace(step, kind="order", payee=payee, name_there=there, state=state)
        else:
            self.of[name] = structs.replace(step, original_end_to_end_id=order.original_end_to_end_id)

    def forget(self, remembered: Remembered, clock: MonthClock) -> None:
        """The state of a restored database: it has the orders, and of their calls only ``remembered``."""
        for name, step in self.of.items():
            self.of[name] = structs.replace(
                step, state=remembered, may_be_done=remembered == "asked",
                called_at=None if remembered == "minted" else clock.real_now(),
                outcome=None, refusal_code=None, refusal_reason=None,
            )  # fmt: skip


class InstitutionUnderTest(UnofferedHooks):
    """An account at a simulated bank, whose clock is the rail's clock too."""

    timeout_s = 60.0
    known_key = KEY
    unknown_key = "nobody@pix.example"

    def __init__(
        self,
        does: frozenset[Work],
        bank: Bank,
        control: Control,
        clock: MonthClock,
        institution: institutions.Institution,
        wire: BreakableWire,
        *,
        by_code: bool = False,
    ) -> None:
        self.does = does
        self._steps = Steps(names_first=institution.traits.names_first)
        self._steps.set_fault = lambda fault: control.set(("face_write", fault))
        memory: rail_memory.RailMemory = self._steps
        self.rail: Rail = InstitutionRail(institution, memory, clock)
        self.names: dict[str, str] = {}
        self._bank, self._control, self._clock = bank, control, clock
        self._institution, self._wire = institution, wire
        self._by_code = by_code

    def make_order(self, fate: Fate = "settles", amount_cents: int = 100) -> Order:
        key = PAYEE if fate == "settles" else _REFUSING_KEY
        order = support.order(
            amount_cents=amount_cents,
            ordered_at=self._clock.real_now(),
            credit_party=structs.replace(UNKNOWN_PARTY, key=key, key_type="EMAIL"),
            payer_key=KEY,
        )
        if self._by_code:
            code = format_static_br_code(key, "Loja", "Recife", amount_cents=amount_cents)
            order = structs.replace(order, initiation_type="QRCODE", br_code=code)
        self._steps.mint(order, self._clock)
        return order

    def make_refund_order(self, original_end_to_end_id: str, amount_cents: int) -> RefundOrder:
        order = support.refund_order(original_end_to_end_id, amount_cents=amount_cents, ordered_at=self._clock.real_now())
        self._steps.mint(order, self._clock)
        return order

    async def pay_in(self, amount_cents: int, txid: str, payer_name: str = "Joana") -> str | None:
        terms = institutions.ChargeTerms(txid=txid, key=KEY, amount_cents=amount_cents, lifetime_s=3600)
        opened = await self._institution.open_charge(terms)
        assert isinstance(opened, institutions.OpenedCharge), opened
        await self._bank.be_paid(opened.network_txid or txid, amount_cents)
        # The bank dates each payment a little after the one before: a list that ends now would lack one of the next moment.
        self._clock.advance(seconds=1)
        return None

    async def list_received(self) -> Sequence[CreditReport]:
        now = self._clock.real_now()
        try:
            return [
                as_report(item)
                async for page in self._institution.list_received(now - _SPAN, now)
                for item in page
                if isinstance(item, institutions.ReceivedPix)
            ]
        except institutions.InstitutionUnavailable as error:
            raise RailUnavailable(error.reason) from error

    async def read_funds(self) -> int:
        return sum(await read_funds(self._bank.service, self._bank.service.caller))

    async def disturb_next_list(self, how: Disturbance) -> None:
        self._control.set(("face_read", "no_answer" if how == "lost" else f"lag:{_LAG.total_seconds():.0f}"))

    async def forget(self, remembered: Remembered = "minted") -> None:
        self._steps.forget(remembered, self._clock)

    async def lose_next_message(self) -> None:
        self._fail_next("lost")

    async def lose_next_answer(self) -> None:
        self._fail_next("no_answer")

    def _fail_next(self, fault: str) -> None:
        if self._steps.names_first:
            self._steps.fault = fault
        else:
            self._control.set(("face_write", fault))

    @asynccontextmanager
    async def unavailable(self) -> AsyncIterator[None]:
        await self._wire.cut()
        try:
            yield
        finally:
            await self._wire.mend()

    async def pass_time(self, span: timedelta) -> None:
        self._clock.advance(seconds=span.total_seconds())


@asynccontextmanager
async def open_institution_under_test(
    face: str,
    does: frozenset[Work],
    bank: Bank,
    control: Control,
    clock: MonthClock,
    folder: Path,
    tell: Callable[[institutions.Institution], institutions.Institution] = lambda institution: institution,
    *,
    by_code: bool = False,
) -> AsyncIterator[InstitutionUnderTest]:
    """Yield an account at a simulated bank. ``tell`` can put a lying bank in front of it; ``by_code`` pays QR codes."""
    refusing = outside_party(key=_REFUSING_KEY)
    # Efi requires a webhook on every paying account.
    await key_webhook_usecases.set_webhook(bank.service.context, bank.service.caller, KEY, bank.hook)
    bank.service.rail.entries[_REFUSING_KEY] = DirectoryEntry(key=_REFUSING_KEY, key_type="EMAIL", party=refusing)
    async with open_account_there(bank, face, folder, account="" if face == "efi" else ACCOUNT) as there:
        port = int(there.account.base_url.rpartition(":")[2])
        async with BreakableWire("127.0.0.1", port) as wire:
            account = structs.replace(there.account, base_url=f"https://127.0.0.1:{wire.port}")
            institution = open_institution(account, there.credential, clock, SystemEntropy())
            ending = asyncio.create_task(_end_all(There(bank=bank)))
            try:
                yield InstitutionUnderTest(does, bank, control, clock, tell(institution), wire, by_code=by_code)
            finally:
                ending.cancel()
                await asyncio.gather(ending, return_exceptions=True)
                await institution.close()


async def _end_all(there: There) -> None:
    chance = Random(1)  # noqa: S311  nothing is drawn
    while True:
        await asyncio.sleep(_ENDS_EVERY_S)
        await there.end(chance, share_rejected=0, refusing_key=_REFUSING_KEY)
