"""A holder whose money lies on an account at an institution in this process, and the service's work on the account."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, structs

from pixconnect.features.allowances import service as allowance_usecases
from pixconnect.features.allowances.rules import WantedAllowance
from pixconnect.features.institutions.accounts import INSTITUTIONS
from pixconnect.features.institutions.orders import StoredRailMemory
from pixconnect.features.institutions.rail import InstitutionRail
from pixconnect.features.institutions.rules.account import Credential, InstitutionAccount
from pixconnect.features.institutions.rules.institution import InstitutionItem, InstitutionTraits, OpenAccount, ReceivedPix
from pixconnect.features.institutions.rules.sweep import Sweep
from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.features.institutions.service.open_accounts import OpenAccounts, at_account
from pixconnect.features.institutions.service.statement import settle_items
from pixconnect.features.institutions.service.statement_sweep import note_listed, record_listed
from pixconnect.features.institutions.service.sweep import post_opening, sweep
from pixconnect.features.institutions.tables import day as sweep_store
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import holder as holder_usecases
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.handover import process_due_orders
from pixconnect.kernel.rules.access import SCOPES, Caller
from pixconnect.kernel.rules.charge import Charge, ChargeRequest
from pixconnect.kernel.rules.refund import Refund, RefundRequest
from pixconnect.kernel.rules.transfer import KeyTransferRequest, Transfer
from pixconnect.platform.pool import Pool
from support.cut_connections import Wire, open_wire
from support.fake_institution import OWNER_TAX_ID, FakeInstitution, a_description
from support.operators import as_operator
from support.postgres import Addresses, make_live
from support.records import OUTSIDE_ISPB, a_new_holder, own_key
from support.service import FakeClock, Service, no_fence, open_service

NO_LIMITS: dict[str, Any] = dict(transfer_limit_cents=None, day_limit_cents=None, night_limit_cents=None)


class Shop(Struct, frozen=True, kw_only=True):
    live: Service
    there: FakeInstitution
    account: InstitutionAccount
    context: Context  # the use cases' context of a process that knows the account
    house: Caller

    @property
    def at(self) -> Context:
        return at_account(self.context, self.account, InstitutionRail(self.there, self.memory, self.context.clock))

    @property
    def memory(self) -> StoredRailMemory:
        return StoredRailMemory(self.context.pool, no_fence, self.context.clock, self.opened)

    @property
    def opened(self) -> OpenAccount:
        return OpenAccount(account=self.account, institution=self.there)

    async def charge(self, external_id: str | None = None, amount_cents: int = 1000, key: str = "1") -> Charge:
        request = ChargeRequest(amount_cents=amount_cents, key=own_key(key), external_id=external_id)
        return await charge_usecases.create_charge(self.context, self.house, request)

    def pay(self, amount_cents: int = 1000, **changes: Any) -> ReceivedPix:
        token = self.context.entropy.token(11)
        pix = ReceivedPix(
            end_to_end_id=f"E{OUTSIDE_ISPB}202607011500{token}",
            txid=None,
            key=own_key(),
            amount_cents=amount_cents,
            settled_at=self.live.clock.real_now(),
        )
        pix = structs.replace(pix, **changes)
        self.there.receive(pix)
        return pix

    async def allow(self, cents: int = 1_000_000) -> None:
        wanted = WantedAllowance(refunds_day_cents=cents)
        await allowance_usecases.allow(as_operator(self.live.context), self.account.name, wanted)

    async def allow_sending(self, **changes: Any) -> None:
        all_of_it = WantedAllowance(transfer_cents=1_000_000, transfers_day_cents=10_000_000, payees="all")
        wanted = structs.replace(all_of_it, **changes)
        await allowance_usecases.allow(as_operator(self.live.context), self.account.name, wanted)

    async def send(self, amount_cents: int, key: str = "joana@pix.example", **changes: Any) -> Transfer:
        request = KeyTransferRequest(amount_cents=amount_cents, key=key, key_type="EMAIL", **changes)
        return (await transfer_usecases.start_transfer(self.context, self.house, request)).transfer

    async def give_back(self, pix: ReceivedPix, amount_cents: int | None = None, **changes: Any) -> Refund:
        request = RefundRequest(end_to_end_id=pix.end_to_end_id, amount_cents=amount_cents or pix.amount_cents)
        return await refund_usecases.start_refund(self.context, self.house, structs.replace(request, **changes))

    async def move_orders(self, **later: float) -> int:
        """Sweep once, after some time."""
        self.live.clock.advance(**later)
        return await process_due_orders(self.at, no_fence, self.account.id, self.live.clock.now(), 16)

    async def receive(self, amount_cents: int = 1000, **changes: Any) -> ReceivedPix:
        pix = self.pay(amount_cents, **changes)
        await self.read()
        return pix

    async def read(self) -> int:
        """Run one near sweep."""
        return await sweep(self.at, self.there, "near")

    async def tell_lines(self, *lines: InstitutionItem) -> None:
        """Record and settle lines of one day, as if the institution's statement was read to its end."""
        await record_listed(self.at, self.account, lines)
        await note_listed(self.at, self.account, (lines[0].day, lines[0].day))
        await settle_items(self.at, self.account)


@asynccontextmanager
async def lost_at_the_answer(shop: Shop, table: str) -> AsyncIterator[None]:
    """When the institution answers, make a table's rows unchangeable, as on a server that became a standby."""

    async def lose() -> None:
        shop.there.before_answer = None
        await shop.live.execute_as_owner(
            "create function become_standby() returns trigger language plpgsql as "
            "$$ begin raise exception 'a standby' using errcode = 'read_only_sql_transaction'; end $$; "
            f"create trigger become_standby before update on {table} for each row execute function become_standby()",
        )

    shop.there.before_answer = lose
    yield
    await shop.live.execute_as_owner("drop function become_standby() cascade")


async def make_owner(live: Service, number: str = "1", tax_id: str = OWNER_TAX_ID) -> int:
    new = structs.replace(a_new_holder(account_number=number), tax_id=tax_id, **NO_LIMITS)
    operator = as_operator(live.context)
    holder = await holder_usecases.create_holder(operator, new)
    await holder_usecases.add_pix_key(operator, holder.id, "EMAIL", own_key(number))
    return holder.id


async def open_shop(live: Service, there: FakeInstitution, **changes: Any) -> Shop:
    house_id = await make_owner(live)
    account = await account_usecases.add_account(
        as_operator(live.context), there.open, "loja", a_description(**changes), house_id
    )
    accounts = OpenAccounts(live.context.pool, live.context.secret_box, there.open, live.context.clock.monotonic_s)
    return Shop(
        live=live,
        there=there,
        account=account,
        context=live.context.with_port(INSTITUTIONS, accounts),
        house=Caller(client_id="test", holder_id=house_id, scopes=frozenset(SCOPES)),
    )


async def read_again(shop: Shop, sent: Transfer) -> Transfer:
    return (await transfer_usecases.read_transfer_by_id(shop.context, shop.house, sent.id)).transfer


@asynccontextmanager
async def open_cut_shop(database: Addresses, clock: FakeClock) -> AsyncIterator[tuple[Wire, Shop]]:
    """A shop whose service reaches the database over a wire that a test can cut."""
    async with (
        open_wire(database) as (wire, near),
        open_service(near, clock=clock, is_sandbox=False, has_rail=False) as service,
    ):
        yield wire, await open_shop(service, FakeInstitution(service.clock))


async def open_banco(shop: Shop) -> InstitutionAccount:
    operator, house_id = as_operator(shop.live.context), await make_owner(shop.live, "9")
    said = a_description(keys=["b@test.example"], receiving=Credential(client_id="b"), base_url="https://127.0.0.1:8106")
    return await account_usecases.add_account(operator, shop.there.open, "banco", said, house_id)


async def note_read(pool: Pool, institution_id: int) -> None:
    """Note that what came in was read, of this year to its end: then a line that names no Pix can be none."""
    until = datetime(2026, 12, 31, tzinfo=UTC)
    await sweep_store.write(
        pool, Sweep(institution_id=institution_id, pace="near", began_at=until, ended_at=until, items_count=0)
    )


async def begin_in_july(live: Service, there: FakeInstitution, days: int = 2, **changes: Any) -> Shop:
    """An account whose books begin with 100.00 on the first of July, on the third; what came in was read."""
    there.balance_cents = 10_000
    live.clock.advance(hours=-13)
    shop = await open_shop(live, there, **changes)
    await post_opening(live.context, shop.account)
    await note_read(live.context.pool, shop.account.id)
    live.clock.advance(hours=13, days=days)
    return shop


@asynccontextmanager
async def open_books(database: Addresses, days: int = 0) -> AsyncIterator[tuple[Service, InstitutionAccount]]:
    """A live service with one account, which is read; its books begin with 100.00, so many days before the service's clock."""
    await make_live(database)
    async with open_service(database, is_sandbox=False, has_rail=False) as service:
        there = FakeInstitution(service.clock)
        there.balance_cents = 10_000
        service.clock.advance(hours=-13)
        account = (await open_shop(service, there)).account
        await note_read(service.context.pool, account.id)
        service.clock.advance(hours=13, days=days)
        yield service, account


@asynccontextmanager
async def open_in_july(database: Addresses, traits: InstitutionTraits | None = None, **changes: Any) -> AsyncIterator[Shop]:
    """A separate live service with ``begin_in_july``."""
    await make_live(database)
    async with open_service(database, is_sandbox=False, has_rail=False) as live:
        yield await begin_in_july(live, FakeInstitution(live.clock, traits or InstitutionTraits()), **changes)
