"""Every event type with its cause and an example, made by the service itself.

Use cases cause the events, on a separate database with a fixed clock and reproducible random numbers, so
``docs/reference/events.md`` can be compared with the result. The page says how it is generated.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count

from msgspec import structs

from pixconnect.features.cases.rules import Adjustment, announce_adjustment
from pixconnect.features.contests.service.defence import defend, do_due, list_infractions
from pixconnect.features.contests.service.infraction import receive_infraction
from pixconnect.features.documentation import openapi
from pixconnect.features.movements.service import receive_movement
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.incoming import receive_credit, receive_return
from pixconnect.kernel.flows.settlement import Ending, end_orders
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import Charge, ChargeRequest
from pixconnect.kernel.rules.charge_payment import announce_divergence
from pixconnect.kernel.rules.event import EVENT_FACTS, SANDBOX_CAUSES
from pixconnect.kernel.rules.listing import Span
from pixconnect.kernel.rules.rail import Rejected, ReturnReport, Settled
from pixconnect.kernel.rules.refund import Refund, RefundRequest
from pixconnect.kernel.rules.transfer import AccountTransferRequest, Transfer, announce_update
from pixconnect.platform.config import POSTGRES_NEWEST
from support import postgres
from support.records import OUTSIDE_ISPB, a_policy, outside_party, own_key
from support.service import (
    CountedEntropy,
    FakeClock,
    Service,
    credit_report,
    decided,
    held,
    infraction_report,
    movement_report,
    open_holder,
    open_service,
)

STARTED_AT = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
AMOUNT_CENTS = 10_607


class Story:
    """One holder to whom everything happens, a second apart."""

    def __init__(self, service: Service, caller: Caller) -> None:
        self._service = service
        self._context = service.context
        self._caller = caller
        self._orders = count(1)

    async def cause_events(self) -> None:
        """Cause every event once."""
        await self._be_paid(await self._charge())
        await self._be_paid(await self._charge(), above_cents=1)
        late = await self._charge()
        self._service.clock.advance(days=1)
        await charge_usecases.expire_charges(self._context, range(256), late.expires_at, 1)
        sent = await self._send(Settled(settled_at=self._service.clock.now()))
        await self._send(Rejected(code="AC03", reason="the account does not exist"))
        for amount_cents in (AMOUNT_CENTS + 1, AMOUNT_CENTS):
            await self._be_given_back(sent, amount_cents)
        received = await self._be_paid(None)
        await self._give_back(received, Rejected(code="AC03", reason="the account does not exist"))
        await self._give_back(received, Settled(settled_at=self._service.clock.now()))
        self._service.clock.advance(seconds=1)
        await receive_movement(self._context, movement_report(self._service, description="Tarifa Pix"))
        for name in ("I1", "I2"):
            await self._be_contested(name)
        await self._be_held()

    async def _be_held(self) -> None:
        charge = await self._charge()
        self._service.clock.advance(seconds=1)
        report = credit_report(self._service, amount_cents=AMOUNT_CENTS, txid=charge.txid, end_to_end_id=self._network_id("E"))
        await receive_credit(self._context, held(report))

    async def _be_contested(self, name: str) -> None:
        """Of two contests the first is answered after a reminder and released; the money of the other is taken."""
        paid = await self._be_paid(None)
        report = infraction_report(self._service, paid, name, amount_cents=AMOUNT_CENTS)
        await receive_infraction(self._context, report)
        if name == "I1":
            self._service.clock.advance(days=5, seconds=1)
            await do_due(self._context, range(256), 1)
            (found,) = (await list_infractions(self._context, self._caller, None, Span())).items
            await defend(self._context, self._caller, found.infraction.id, "The parcel was delivered")
            await do_due(self._context, range(256), 1)
        self._service.clock.advance(seconds=1)
        taken_cents = 0 if name == "I1" else AMOUNT_CENTS
        await receive_infraction(self._context, decided(self._service, report, taken_cents))

    async def _charge(self) -> Charge:
        self._service.clock.advance(seconds=1)
        request = ChargeRequest(amount_cents=AMOUNT_CENTS, key=own_key(), external_id=self._next_name())
        return await charge_usecases.create_charge(self._context, self._caller, request)

    async def _be_paid(self, charge: Charge | None, above_cents: int = 0) -> str:
        self._service.clock.advance(seconds=1)
        report = credit_report(
            self._service,
            amount_cents=AMOUNT_CENTS + above_cents,
            txid=charge and charge.txid,
            end_to_end_id=self._network_id("E"),
        )
        await receive_credit(self._context, report)
        return report.end_to_end_id

    async def _send(self, ending: Ending) -> Transfer:
        self._service.clock.advance(seconds=1)
        request = AccountTransferRequest(amount_cents=AMOUNT_CENTS, credit_party=outside_party(), external_id=self._next_name())
        transfer = (await transfer_usecases.start_transfer(self._context, self._caller, request)).transfer
        await self._end(transfer.end_to_end_id, ending)
        return transfer

    async def _be_given_back(self, transfer: Transfer, amount_cents: int) -> None:
        self._service.clock.advance(seconds=1)
        report = ReturnReport(
            report_id=f"r{amount_cents}",
            return_id=self._network_id("D"),
            original_end_to_end_id=transfer.end_to_end_id,
            amount_cents=amount_cents,
            reason="MD06",
            description=None,
            reported_at=self._service.clock.now(),
        )
        await receive_return(self._context, report)

    async def _give_back(self, end_to_end_id: str, ending: Ending) -> Refund:
        self._service.clock.advance(seconds=1)
        request = RefundRequest(end_to_end_id=end_to_end_id, amount_cents=AMOUNT_CENTS, external_id=self._next_name())
        refund = await refund_usecases.start_refund(self._context, self._caller, request)
        await self._end(refund.return_id, ending)
        return refund

    async def _end(self, name: str, ending: Ending) -> None:
        self._service.clock.advance(seconds=1)
        await end_orders(self._context, [(name, ending)])

    def _next_name(self) -> str:
        return f"order-{next(self._orders)}"

    def _network_id(self, letter: str) -> str:
        now = self._service.clock.now()
        return f"{letter}{OUTSIDE_ISPB}{now:%Y%m%d%H%M}{self._context.entropy.token(11)}"


async def make_examples(database: postgres.Addresses) -> dict[str, str]:
    """The first event of each type, as it is sent."""
    async with open_service(database, clock=FakeClock(STARTED_AT)) as opened:
        service = structs.replace(opened, context=structs.replace(opened.context, entropy=CountedEntropy()))
        caller = await open_holder(service, funds_cents=1_000_000)
        await Story(service, caller).cause_events()
        rows = await service.context.pool.fetch("select name, body from event order by id desc")
        received = await service.context.pool.fetchval("select max(id) from transfer where direction = 'IN'")
        found = await transfer_usecases.read_transfer_by_id(service.context, caller, received)
        expired = await service.context.pool.fetchval("select id from charge where status = 'EXPIRED'")
        late = await charge_usecases.read_charge_by_id(service.context, caller, expired)
    examples: dict[str, str] = {row["name"]: row["body"] for row in rows}
    # No institution here gives more about a payer, allows late payment, or differs, so these events are made by hand.
    last = max(json.loads(body)["id"] for body in examples.values())
    confirmed = structs.replace(found.transfer, status="CONFIRMED")
    completed = announce_update(confirmed, "transfer.in.completed", found.transfer.modified_at + timedelta(minutes=1), last + 1)
    examples[completed.name] = completed.body
    paid = structs.replace(confirmed, txid=late.txid, network_settled_at=confirmed.settled_at)
    diverged = announce_divergence(
        paid, structs.replace(late, amount_cents=AMOUNT_CENTS - 7), ("EXPIRED", "OTHER_AMOUNT"), last + 2
    )
    examples[diverged.name] = diverged.body
    sent = structs.replace(confirmed, direction="OUT", status="PROCESSING", external_id="order-8", settled_at=None)
    waiting = announce_update(sent, "transfer.out.waiting", found.transfer.modified_at + timedelta(minutes=1), last + 5)
    examples[waiting.name] = waiting.body
    adjusted = announce_adjustment(_make_adjustment(caller, last + 3, late.modified_at), last + 4)
    return _list_documented() | examples | {adjusted.name: adjusted.body}


def _list_documented() -> dict[str, str]:
    """The OpenAPI document's examples of events that no caller of a sandbox can cause."""
    document = json.loads(openapi.describe(a_policy(), base_url="", version="").openapi().content)
    contents = {name: row["post"]["requestBody"]["content"]["application/json"] for name, row in document["webhooks"].items()}
    return {name: json.dumps(content["example"]) for name, content in contents.items() if name not in SANDBOX_CAUSES}


def _make_adjustment(caller: Caller, adjustment_id: int, created_at: datetime) -> Adjustment:
    return Adjustment(
        id=adjustment_id, holder_id=caller.holder_id, case_id=1, kind="bank_error", direction="OUT",
        account="available", amount_cents=300, deficit_cents=0, entry_id=adjustment_id, deficit_entry_id=None,
        opposite_of=None, proposed_by="ana", confirmed_by="bia", created_at=created_at,
    )  # fmt: skip


def write_page(examples: dict[str, str]) -> str:
    """``docs/reference/events.md``."""
    lines = [
        "# Events",
        "",
        "Every event with its payload. Written by `make docs`, which causes each event and shows it as sent, except line",
        "breaks. See how to [receive](../guides/webhooks.md) them, and how they are [delivered](../explanations/delivery.md).",
        "",
        "- An event has an `id` (below 2^53; drop known ones), its `name`, a `payload` and `create_timestamp`.",
        "- The payload has all fields of its family, with these exceptions: incoming transfers and refunds have no",
        "  `external_id`; a movement may lack `end_to_end_id` and `description`; `charge.diverged` may lack the charge; only",
        "  `transfer.in.held` has a `hold`.",
        "- Amounts are cents. `correlation_id` is the same for a transfer and its refunds, `id` for one resource.",
        "- A network name (`end_to_end_id`, `return_identification`) may differ between two events of a resource, if the",
        "  network makes its own after ours; both find the resource.",
        "- Between two holders of this service each side has its own events.",
    ]
    for name, fact in EVENT_FACTS.items():
        shown = json.dumps(json.loads(examples[name]), indent=2)
        lines += [
            "",
            f"## {name}",
            "",
            f"{fact} In the sandbox: {SANDBOX_CAUSES.get(name, 'never, because no call of our API causes it')}.",
            "",
            "```json",
            shown,
            "```",
        ]
    return "\n".join(lines) + "\n"


@asynccontextmanager
async def open_database() -> AsyncIterator[postgres.Addresses]:
    """A migrated database on a separate server."""
    server = postgres.Server(POSTGRES_NEWEST)
    addresses = await asyncio.to_thread(server.start)
    try:
        yield await postgres.make_copy(addresses, "examples")
    finally:
        await asyncio.to_thread(server.stop)
