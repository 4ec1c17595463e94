"""One account's money in two books: a bank's, through its simulated API over TLS, and a service's. One clock moves both."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from msgspec import Struct, structs

from pixconnect.features.allowances import service as allowance_usecases
from pixconnect.features.allowances.rules import WantedAllowance
from pixconnect.features.cases.rules import EndingClaim, Evidence
from pixconnect.features.cases.service import case as case_usecases
from pixconnect.features.cases.service.case_ending import WantedEnding, propose_ending
from pixconnect.features.cases.service.proposal import confirm_proposal
from pixconnect.features.contests.service import defence as defence_usecases
from pixconnect.features.contests.worker import read_contests, send_defences
from pixconnect.features.institutions.accounts import INSTITUTIONS
from pixconnect.features.institutions.opener import open_institution
from pixconnect.features.institutions.orders import StoredRailMemory
from pixconnect.features.institutions.rail import InstitutionRail
from pixconnect.features.institutions.rules.account import Credential, InstitutionAccount
from pixconnect.features.institutions.rules.account_file import AccountDescription
from pixconnect.features.institutions.rules.day import JudgedDay
from pixconnect.features.institutions.rules.institution import Institution, InstitutionUnavailable, OpenAccount
from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.features.institutions.service import day as day_usecases
from pixconnect.features.institutions.service.open_accounts import OpenAccounts, at_account
from pixconnect.features.institutions.service.statement import settle_waiting
from pixconnect.features.institutions.worker import (
    go_on_with_charges,
    look_after,
    move_orders,
    read_own_statement,
    read_sent_returns,
)
from pixconnect.features.movements.service import receive_movement
from pixconnect.features.pix_api.service import key_webhook as key_webhook_usecases
from pixconnect.features.statements import service as statement_usecases
from pixconnect.features.statements.rules import StatementLine
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.flows.settlement import end_orders
from pixconnect.kernel.rules.access import SCOPES, Caller
from pixconnect.kernel.rules.block_report import InfractionReport, TakenPart
from pixconnect.kernel.rules.charge import Charge, ChargeRequest
from pixconnect.kernel.rules.event import SLOTS_COUNT
from pixconnect.kernel.rules.rail import RailUnavailable, Rejected, ReturnReport, Settled
from pixconnect.kernel.rules.refund import RefundRequest
from pixconnect.kernel.rules.transfer import AccountTransferRequest, KeyTransferRequest, Transfer
from pixconnect.platform.adapters.system import SystemEntropy
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import to_day
from support import postgres
from support.account_shop import make_owner
from support.account_there import open_account_there
from support.faces import PAYEE, Bank
from support.fake_institution import a_description
from support.operators import as_operator
from support.records import OUTSIDE_ISPB, outside_party
from support.service import FakeClock, Service, infraction_report, movement_report, no_fence, open_service, read_funds
from support.statement_files import confirm_own_files

CLOSED_WITHIN = timedelta(days=4)
"""A day's file that came too soon or was not answered is requested again after a day."""
_LETTER = Evidence(name="letter.pdf", size=1200, digest="ab" * 32)
_AWAY = (errors.ServiceUnavailable, InstitutionUnavailable, RailUnavailable)


_WORK = (look_after, read_own_statement, read_sent_returns, move_orders, go_on_with_charges)
_CONTESTS_WORK = (read_contests, send_defences)


class MonthClock(FakeClock):
    """A clock moved by hand, which also runs where only durations are measured: by rates and tokens."""

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time() + self.real.timestamp()


class There(Struct, frozen=True, kw_only=True):
    """Events at the bank, whose client and others move money."""

    bank: Bank

    @property
    def context(self) -> Context:
        return self.bank.service.context

    @property
    def caller(self) -> Caller:
        return self.bank.service.caller

    async def give_back(self, name: str, amount_cents: int) -> None:
        request = RefundRequest(end_to_end_id=name, amount_cents=amount_cents)
        with suppress(errors.Refusal):
            await refund_usecases.start_refund(self.context, self.caller, request)

    async def return_sent(self, name: str, amount_cents: int, return_id: str = "") -> str:
        """The payee returns a part of a sent Pix; yields the return's id."""
        now = self.context.clock.now()
        returned = ReturnReport(
            report_id=self.context.entropy.token(12),
            return_id=return_id or f"D{OUTSIDE_ISPB}{now:%Y%m%d%H%M}{self.context.entropy.token(11)}",
            original_end_to_end_id=name,
            amount_cents=amount_cents,
            reason="MD06",
            description=None,
            reported_at=now,
        )
        assert await take_reports(self.context, [returned]) == 1
        return returned.return_id

    async def send(self, amount_cents: int) -> bool:
        """A person pays in the bank's app; returns whether the funds suffice."""
        request = AccountTransferRequest(amount_cents=amount_cents, credit_party=outside_party())
        try:
            await transfer_usecases.start_transfer(self.context, self.caller, request)
        except errors.InsufficientFunds:
            return False
        return True

    async def move(self, item_id: str, kind: str, amount_cents: int, *, about: str | None = None, **changes: Any) -> None:
        own = (await self.context.directory.read_account(self.caller.holder_id)).party
        said: dict[str, Any] = dict(kind=kind, amount_cents=amount_cents, end_to_end_id=about, party=own)
        await receive_movement(self.context, movement_report(self.bank.service, item_id, **said | changes))

    async def contest(self, name: str, paid: str, amount_cents: int) -> InfractionReport:
        own = (await self.context.directory.read_account(self.caller.holder_id)).party
        report = infraction_report(self.bank.service, paid, name, amount_cents=amount_cents, party=own)
        await take_reports(self.context, [report])
        return report

    async def decide(self, contest: InfractionReport, taken_cents: int) -> bool:
        """The bank returns a part of it, or releases it with 0; False while a return of it is under way."""
        now = self.context.clock.now()
        taken = ()
        if taken_cents:
            name = f"D{OUTSIDE_ISPB}{now:%Y%m%d%H%M}{self.context.entropy.token(11)}"
            taken = (TakenPart(return_id=name, amount_cents=taken_cents, settled_at=now),)
        decided = structs.replace(
            contest,
            report_id=self.context.entropy.token(12),
            state="taken" if taken else "released",
            wanted_cents=0,
            held_cents=0,
            taken=taken,
            reported_at=now,
        )
        return await take_reports(self.context, [decided]) == 1

    async def find_left(self, paid: str) -> tuple[int, bool]:
        """The unreturned cents of a Pix, and whether a return is under way."""
        (row,) = await self.bank.service.fetch(
            "select amount_cents - returned_cents as left_cents, returning_cents > 0 as is_going from transfer "
            "where end_to_end_id = $1",
            paid,
        )
        return row["left_cents"], row["is_going"]

    async def list_contests(self) -> dict[str, tuple[str, int]]:
        return await _list_contests(self.bank.service)

    async def end(self, chance: Random, share_rejected: float = 0.2, refusing_key: str = "") -> None:
        """Everything on the bank's rail ends; payments to that key are always rejected."""
        refunds = await self.bank.service.fetch(
            "select return_id, null as key from refund where status = 'PROCESSING' order by id"
        )
        sent = await self.bank.service.fetch(
            "select end_to_end_id, counterparty ->> 'key' from transfer where status = 'PROCESSING' order by id"
        )
        ends = [
            (
                name,
                Rejected(code="AC03", reason="closed")
                if key == refusing_key or chance.random() < share_rejected
                else Settled(settled_at=self.context.clock.now()),
            )
            for name, key in (*refunds, *sent)
        ]
        await end_orders(self.context, ends)
        # The bank considers its client's answer.
        await defence_usecases.do_due(self.context, range(SLOTS_COUNT), 100)


class Here(Struct, kw_only=True):
    """The service, whose worker can be killed; its replacement only has what is recorded."""

    live: Service
    account: InstitutionAccount
    house: Caller | None  # ``None`` without calls except those of the worker
    accounts: OpenAccounts
    rail: InstitutionRail | None = None  # the worker's memory of its calls dies with it
    has_statements: bool = True  # without its API's, operators read files
    follows_contests: bool = False  # reading costs calls, which are limited, so days close an hour later

    @property
    def context(self) -> Context:
        return self.live.context.with_port(INSTITUTIONS, self.accounts)

    async def charge(self, amount_cents: int, external_id: str) -> Charge | None:
        """Request it; ``None`` if it must be repeated under the same name."""
        request = ChargeRequest(amount_cents=amount_cents, key=self.account.keys[0], external_id=external_id)
        try:
            return await charge_usecases.create_charge(self.context, self.house, request)
        except (errors.ServiceUnavailable, errors.OutcomeUnknown):
            return None

    async def give_back(self, name: str, amount_cents: int) -> None:
        request = RefundRequest(end_to_end_id=name, amount_cents=amount_cents)
        with suppress(errors.Refusal, errors.ServiceUnavailable):
            await refund_usecases.start_refund(self.context, self.house, request)

    async def send(self, amount_cents: int, external_id: str, key: str = PAYEE) -> Transfer | None:
        """Request it; ``None`` if it must be repeated under the same name, or the funds do not suffice."""
        request = KeyTransferRequest(amount_cents=amount_cents, key=key, key_type="EMAIL", external_id=external_id)
        try:
            return (await transfer_usecases.start_transfer(self.context, self.house, request)).transfer
        except (errors.ServiceUnavailable, errors.OutcomeUnknown, errors.InsufficientFunds):
            return None

    async def defend(self, contest_name: str, text: str) -> bool:
        """Answer a contest that is recorded here; returns whether that was possible."""
        rows = await self.live.fetch("select id from infraction where name = $1", contest_name)
        try:
            for row in rows:
                await defence_usecases.defend(self.context, self.house, row["id"], text)
        except errors.Refusal:
            return False
        return bool(rows)

    async def list_contests(self) -> dict[str, tuple[str, int]]:
        return await _list_contests(self.live)

    async def work(self) -> None:
        opened = await self.accounts.find(self.account.id)
        assert opened is not None, "a loss paused the account"
        context = self.at(opened)

        every = (*_WORK, *_CONTESTS_WORK) if self.follows_contests else _WORK
        tasks = [task for task in every if self.has_statements or task is not read_own_statement]

        async def do_one(number: int) -> None:
            with suppress(*_AWAY):
                await tasks[number](context, opened, no_fence, frozenset())

        await asyncio.gather(*map(do_one, range(len(tasks))))
        # Only one task at a time settles an account's lines. The worker tries again after a pause; here there is one round.
        with suppress(*_AWAY):
            await settle_waiting(context, opened.account, is_deep=False)

    def at(self, opened: OpenAccount) -> Context:
        if self.rail is None:
            memory = StoredRailMemory(self.live.context.pool, no_fence, self.live.clock, opened)
            self.rail = InstitutionRail(opened.institution, memory, self.live.clock, opened.own_sender)
        return at_account(self.context, opened.account, self.rail)

    async def die_at_work(self, turns_count: int) -> None:
        """Begin, and be killed after so many turns of the loop."""
        working = asyncio.create_task(self.work())
        for _ in range(turns_count):
            await asyncio.sleep(0)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await self.accounts.close()
        self.accounts, self.rail = open_accounts(self.live), None

    async def list_days(self, last: date) -> list[JudgedDay]:
        count = (last - to_day(self.account.opened_at)).days + 1
        return await day_usecases.list_days(self.context, self.account, last, count)


class TwoBooks(Struct, frozen=True, kw_only=True):
    there: There
    here: Here
    clock: MonthClock
    said: AccountDescription  # the account's file

    async def come_to_rest(self, last: date, chance: Random) -> None:
        """Without faults, the worker finishes all its work and closes every possible day."""
        until = self.clock.real + CLOSED_WITHIN
        while self.clock.real < until:
            await self.there.end(chance, share_rejected=0)
            await self.here.work()
            self.clock.advance(minutes=1)
            await self.here.work()
            if await self._is_at_rest() and all(day.state == "closed" for day in await self.here.list_days(last)):
                return
            self.clock.advance(hours=3)

    async def come_to_rest_with_people(self, last: date, chance: Random) -> Counter[str]:
        """The same, with operators' answers for orders that the bank never answered; returns the number of each answer."""
        await self.come_to_rest(last, chance)
        said = await self.let_people_end()
        await self.come_to_rest(last, chance)
        return said

    async def let_people_end(self) -> Counter[str]:
        """Two operators look into the bank's books about orders that the bank never answered, and record the answer."""
        context, said = self.here.live.context, Counter[str]()
        await case_usecases.look_for_cases(context)
        for shown in await case_usecases.list_cases(context, kind="order"):
            end: EndingClaim = "settled" if await self._is_there(shown.case.name) else "never"
            said[f"ended by people: {end}"] += 1
            wanted = WantedEnding(case_id=shown.case.id, claim=end, evidence=_LETTER)
            proposal = await propose_ending(as_operator(context, "ana"), wanted)
            await confirm_proposal(as_operator(context, "bia"), context, proposal.code)
        return said

    async def _is_there(self, order_name: str) -> bool:
        (step,) = await self.here.live.fetch("select name_there from rail_step where order_name = $1", order_name)
        rows = await self.there.bank.service.fetch(
            "select status from refund where external_id = $1 union all "
            "select status from transfer where external_id = $1 or payer_message like '%' || left($1, 20)",
            step["name_there"],
        )
        return any(row["status"] != "ERROR" for row in rows)

    async def _is_at_rest(self) -> bool:
        """Nothing is under way on either side, and both have the same lines."""
        here = None if self.here.house is None else await read_funds(self.here.live, self.here.house)
        reserved = [funds[1] for funds in (here, await read_funds(self.there.bank.service, self.there.caller)) if funds]
        there_lines, here_lines = await self.list_lines()
        are_contests_alike = await self.there.list_contests() == await self.here.list_contests()
        return not any(reserved) and there_lines == here_lines and are_contests_alike

    async def list_lines(self) -> tuple[Counter[tuple[str, str, int]], Counter[tuple[str, str, int]]]:
        """The lines of both books: direction, network id, cents.

        A failed movement that came back under its id is in neither, because one of the books never shows it.
        """
        since = self.here.account.opened_at
        there = await list_statement(self.there.context, self.there.caller, since)
        here = await list_statement(self.here.context, self.here.house, since)
        return _leave_out_what_came_back(there), _leave_out_what_came_back(here)


async def _list_contests(service: Service) -> dict[str, tuple[str, int]]:
    rows = await service.fetch("select name, state, taken_cents from infraction")
    return {row["name"]: (row["state"], row["taken_cents"]) for row in rows}


def _leave_out_what_came_back(lines: Sequence[StatementLine]) -> Counter[tuple[str, str, int]]:
    named = Counter(map(_name, lines))
    back = {("OUT", name, cents): count for (side, name, cents), count in named.items() if side == "IN" and name}
    for (_, name, cents), count in back.items():
        pairs_count = min(count, named["OUT", name, cents])
        named.subtract({("IN", name, cents): pairs_count, ("OUT", name, cents): pairs_count})
    return +named


def _name(line: StatementLine) -> tuple[str, str, int]:
    moved = None if line.movement is None else line.movement.end_to_end_id
    return line.direction, line.return_id or line.end_to_end_id or moved or "", line.amount_cents


async def list_statement(context: Context, caller: Caller, since: datetime) -> Sequence[StatementLine]:
    statement = await statement_usecases.open_statement(context, caller, since, context.clock.now())
    lines = [line async for part in statement_usecases.read_parts(context, statement) for line in part]
    lines = [line for line in lines if line.movement is None or line.movement.kind != "opening_balance"]
    # A movement that was reversed, and its reversal, are in one of the books only.
    opposites = [line for line in lines if line.movement is not None and line.movement.item_id.startswith("opposite:")]
    for opposite in opposites:
        lines.remove(opposite)
        lines.remove(next(line for line in lines if _is_taken_back(line, opposite)))
    return lines


def _is_taken_back(line: StatementLine, opposite: StatementLine) -> bool:
    """The movement of a line that proved to be a return. A similar one will do, since both books are compared by id."""
    moved = line.movement
    is_out = moved is not None and moved.kind == "reversal" and line.direction == "OUT"
    return is_out and line.amount_cents == opposite.amount_cents


def open_accounts(live: Service) -> OpenAccounts:
    def open_one(account: InstitutionAccount, credential: Credential) -> Institution:
        return open_institution(account, credential, live.clock, SystemEntropy())

    return OpenAccounts(live.context.pool, live.context.secret_box, open_one, live.clock.monotonic_s)


@asynccontextmanager
async def open_two_books(
    bank: Bank,
    clock: MonthClock,
    database: postgres.Addresses,
    face: str,
    folder: Path,
    options: dict[str, Any] | None = None,
    **policy: Any,
) -> AsyncIterator[TwoBooks]:
    """An account of the bank's client with ``options``, and a service with a new database that reads it."""
    async with (
        open_account_there(bank, face, folder, account="" if face == "efi" else bank.account, keys=(bank.key,)) as there,
        open_service(database, clock=clock, is_sandbox=False, has_rail=False, **policy) as live,
    ):
        await live.execute_as_owner("insert into installation (mode) values ('live')")
        told, credential = there.account, there.credential
        house_id = await make_owner(live, bank.account, told.tax_id)
        said = a_description(
            kind=told.kind, profile=told.profile, tax_id=told.tax_id, base_url=told.base_url,
            authorities=told.authorities, account=told.account, keys=list(told.keys), options=options or {},
            receiving=credential,
        )  # fmt: skip
        operator = as_operator(live.context)

        def open_one(account: InstitutionAccount, known: Credential) -> Institution:
            return open_institution(account, known, clock, SystemEntropy())

        account = await account_usecases.add_account(operator, open_one, "loja", said, house_id)
        theirs = await bank.service.context.directory.read_account(bank.service.caller.holder_id)
        await confirm_own_files(live.context.pool, account.id, theirs.party.account_number)
        # Efi requires a webhook on every paying account.
        await key_webhook_usecases.set_webhook(bank.service.context, bank.service.caller, bank.key, bank.hook)
        wanted = WantedAllowance(
            refunds_day_cents=1_000_000, transfer_cents=1_000_000, transfers_day_cents=100_000_000, payees="all"
        )
        await allowance_usecases.allow(operator, account.name, wanted)
        house = Caller(client_id="test", holder_id=house_id, scopes=frozenset(SCOPES))
        here = Here(live=live, account=account, house=house, accounts=open_accounts(live))
        yield TwoBooks(there=There(bank=bank), here=here, clock=clock, said=said)
        await here.accounts.close()
