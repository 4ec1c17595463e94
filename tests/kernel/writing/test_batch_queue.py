"""A write queue under everything that can go wrong with it, on a real database."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import Charge, ChargeRequest
from pixconnect.kernel.rules.listing import Span
from pixconnect.kernel.rules.transfer import AccountTransferRequest, TransferView
from pixconnect.kernel.tables import clock as identifier_store
from pixconnect.kernel.writing import batch as timeouts
from pixconnect.kernel.writing.write_queues import QueueFigures
from pixconnect.platform import pool as connection_pool
from pixconnect.platform.base import errors
from pixconnect.platform.flow.overload import Overload
from support import postgres
from support.books import check_books
from support.cut_connections import Cut, Wire, open_wire
from support.records import outside_party, own_key
from support.service import FakeClock, Service, open_holder, open_service
from support.words import Word, open_words, outcomes_of


async def test_what_waits_together_is_written_together_and_a_refusal_is_one_requests_own(service: Service) -> None:
    await open_holder(service)
    async with open_words(service) as (words, queue):
        outcomes = await outcomes_of(queue, [Word(text="refused" if n % 3 == 0 else "good") for n in range(200)])
    assert [isinstance(outcome, errors.InsufficientFunds) for outcome in outcomes] == [n % 3 == 0 for n in range(200)]
    assert len(words.batches) == 1


async def test_what_comes_while_a_group_waits_for_its_locks_goes_with_it(service: Service) -> None:
    for number in ("1", "2"):
        await open_holder(service, account_number=number)
    async with open_words(service, size_max=4) as (words, queue):
        words.admits = True
        words.may_go_on.clear()
        first = asyncio.create_task(queue.submit(Word(text="a")))
        await words.first_batch()
        late = [Word(text="b"), Word(text="other", holder_id=2), Word(text="c"), Word(text="d"), Word(text="too many")]
        waiting = [asyncio.create_task(queue.submit(word)) for word in late]
        gone = asyncio.create_task(queue.submit(Word(text="gone")))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        words.may_go_on.set()
        assert await asyncio.gather(first, *waiting) == ["a", "b", "other", "c", "d", "too many"]
        assert words.batches == [["a", "b", "c", "d"], ["other", "too many"]]
        assert queue.commits_by_size == {4: 1, 2: 1}


async def test_a_poisoned_latecomer_stands_alone_in_the_end(service: Service) -> None:
    await open_holder(service)
    async with open_words(service) as (words, queue):
        words.admits = True
        words.may_go_on.clear()
        first = asyncio.create_task(queue.submit(Word(text="a")))
        await words.first_batch()
        late = asyncio.create_task(outcomes_of(queue, [Word(text="b"), Word(text="defect"), Word(text="c")]))
        await asyncio.sleep(0)
        words.may_go_on.set()
        assert await first == "a"
        b, defect, c = await late
        assert (b, type(defect), c) == ("b", errors.InternalError, "c")
        assert await words.written(service) == ["a", "b", "c"]


async def test_who_finds_no_memory_is_told_that_nothing_was_done_and_the_others_are_written(service: Service) -> None:
    await open_holder(service)
    async with open_words(service) as (words, queue):
        a, refused, b = await outcomes_of(queue, [Word(text="a"), Word(text="no memory"), Word(text="b")])
        assert (a, type(refused), b) == ("a", errors.ServiceUnavailable, "b")
        assert await words.written(service) == ["a", "b"]


class _Stumbling(Overload):
    """Fails once when a batch has just been committed."""

    has_stumbled = False

    def note(self, count: int, *, is_busy: bool) -> None:
        if not self.has_stumbled:
            self.has_stumbled = True
            raise KeyError("a defect of ours")


async def test_a_defect_after_the_commit_is_never_told_as_if_nothing_was_done(service: Service) -> None:
    await open_holder(service)

    async def find_oldest() -> None:
        return None

    overload = _Stumbling(service.clock, find_oldest)
    async with open_words(service, overload=overload) as (words, queue):
        # Unlike requests with ids, words have no memory: repeated, a word is there twice.
        assert await queue.submit(Word(text="a")) == "a"
        assert overload.has_stumbled
        assert await words.written(service) == ["a", "a"]
    await overload.close()


async def test_transfers_that_come_meanwhile_share_one_commit(service: Service, caller: Caller) -> None:
    request = AccountTransferRequest(amount_cents=1, credit_party=outside_party())

    def start() -> "asyncio.Task[TransferView]":
        return asyncio.create_task(transfer_usecases.start_transfer(service.context, caller, request))

    async with service.context.pool.acquire() as somebody, somebody.transaction():
        await somebody.execute("select from balance for update")
        started = [start()]
        await _queue_figures(service, "start_transfers", queue_length=0)
        started += [start() for _ in range(9)]
        await _queue_figures(service, "start_transfers", queue_length=9)
    await asyncio.gather(*started)
    assert (await _queue_figures(service, "start_transfers", queue_length=0)).commits_by_size == {10: 1}
    await check_books(service)


async def test_what_one_statement_can_write_needs_no_transaction(service: Service) -> None:
    await open_holder(service)
    async with open_words(service, is_at_once=True) as (words, queue):
        assert await outcomes_of(queue, [Word(), Word()]) == ["good", "good"]
        assert (words.at_once_count, words.batches, queue.commits_by_size) == (1, [], {2: 1})
        assert await outcomes_of(queue, [Word(), Word(text="other")]) == ["good", "other"]
        assert (words.at_once_count, words.batches) == (1, [["good", "other"]])
        assert await words.written(service) == ["good", "good", "good", "other"]


async def test_a_statement_that_commits_and_is_lost_is_tried_again_in_a_transaction(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    await open_holder(service)
    async with open_words(service, is_at_once=True) as (words, queue):
        words.is_lost_at_once = True
        # Words have no memory: what the lost statement wrote is there too.
        assert await queue.submit(Word()) == "good"
        assert (words.at_once_count, await words.written(service)) == (1, ["good", "good"])
        monkeypatch.setattr(timeouts, "UNKNOWN_OUTCOME_TIMEOUT_S", -1.0)
        monkeypatch.setattr(timeouts, "UNREACHABLE_TIMEOUT_S", 0.05)
        with pytest.raises(errors.OutcomeUnknown):
            await queue.submit(Word())


async def test_charges_join_a_batch_in_time(service: Service, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    open_group = identifier_store.open_group
    late: list[asyncio.Task[Charge]] = []

    def create() -> "asyncio.Task[Charge]":
        return asyncio.create_task(
            charge_usecases.create_charge(service.context, caller, ChargeRequest(amount_cents=1, key=own_key()))
        )

    async def open_late(connection: connection_pool.Connection) -> object:
        opened = await open_group(connection)
        late.extend(create() for _ in range(9))
        await _queue_figures(service, "create_charges", queue_length=9)
        return opened

    monkeypatch.setattr(identifier_store, "open_group", open_late)
    await create()
    await asyncio.gather(*late)
    assert (await _queue_figures(service, "create_charges", queue_length=0)).commits_by_size == {10: 1}


async def _queue_figures(service: Service, name: str, *, queue_length: int) -> QueueFigures:
    """The figures of a queue, as soon as so many requests wait in it."""
    async with asyncio.timeout(60):
        while True:
            for each in service.context.writes.read_figures():
                if each.name == name and each.queue_length == queue_length:
                    return each
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("poison", ["x" * 9 + "\x00", "defect"], ids=["data that PostgreSQL refuses", "our own defect"])
async def test_a_poisoned_request_stands_alone_in_the_end_and_the_others_are_written(service: Service, poison: str) -> None:
    await open_holder(service)
    async with open_words(service) as (words, queue):
        texts = [f"w{n:02}" for n in range(40)]
        texts[17] = poison
        outcomes = await outcomes_of(queue, [Word(text=text) for text in texts])
        assert isinstance(outcomes[17], errors.InternalError)
        assert [outcome for outcome in outcomes if isinstance(outcome, str)] == [t for t in texts if t != poison]
        assert await words.written(service) == sorted(text for text in texts if text != poison)
    assert len(words.batches) < 16


@pytest.mark.long
async def test_a_locked_holder_stalls_nobody_else_for_long_and_recovers(
    database: postgres.Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_pool, "LOCK_TIMEOUT_MS", 4000)
    async with open_service(database) as service:
        for number in ("1", "2", "3"):
            await open_holder(service, account_number=number)
        async with open_words(service) as (_, queue), service.context.pool.acquire() as somebody:
            async with somebody.transaction():
                await somebody.execute("set local idle_in_transaction_session_timeout = 0")
                await somebody.execute("select from balance where holder_id = 2 for update")
                first = [asyncio.create_task(queue.submit(Word(holder_id=holder_id))) for holder_id in (1, 2, 3)]
                await asyncio.wait([first[0], first[2]])
                assert (first[0].result(), first[2].result()) == ("good", "good")
                assert not first[1].done()
                # From now on the stalled holder has a separate queue, and the others do not wait at all.
                stalled = asyncio.create_task(queue.submit(Word(holder_id=2)))
                for _ in range(5):
                    async with asyncio.timeout(3.5):
                        assert await queue.submit(Word(holder_id=1)) == "good"
                with pytest.raises(errors.ServiceUnavailable, match="locked"):
                    await first[1]
                # Later arrivals for it wait in that queue.
                assert not stalled.done()
            async with asyncio.timeout(60):
                assert await queue.submit(Word(holder_id=2)) == "good"
                assert await stalled == "good"


async def test_one_stalled_holder_alone_is_told_that_nothing_was_done(service: Service) -> None:
    await open_holder(service)
    async with open_words(service) as (words, queue), service.context.pool.acquire() as somebody:
        async with somebody.transaction():
            await somebody.execute("set local idle_in_transaction_session_timeout = 0")
            await somebody.execute("select from balance for update")
            with pytest.raises(errors.ServiceUnavailable, match="nothing was done"):
                await queue.submit(Word())
            beside = asyncio.create_task(queue.submit(Word(text="beside")))
            await asyncio.sleep(0.05)
        assert await beside == "beside"
        assert await words.written(service) == ["beside"]


async def test_a_client_that_goes_before_its_group_starts_is_dropped_and_after_that_committed(service: Service) -> None:
    await open_holder(service)
    async with open_words(service) as (words, queue):
        words.may_go_on.clear()
        started = asyncio.create_task(queue.submit(Word(text="started")))
        await words.first_batch()
        waiting = [asyncio.create_task(queue.submit(Word(text=text))) for text in ("gone", "stays")]
        await asyncio.sleep(0)
        started.cancel()
        waiting[0].cancel()
        await asyncio.sleep(0)
        words.may_go_on.set()
        assert await waiting[1] == "stays"
        assert await words.written(service) == ["started", "stays"]
    assert words.batches == [["started"], ["stays"]]


async def test_a_full_queue_is_answered_at_once_and_groups_are_bounded(service: Service) -> None:
    await open_holder(service)
    async with open_words(service, size_max=3, queue_length_max=5) as (words, queue):
        words.may_go_on.clear()
        first = asyncio.create_task(queue.submit(Word()))
        await words.first_batch()
        rest = [asyncio.create_task(queue.submit(Word())) for _ in range(6)]
        await asyncio.wait([rest[5]])
        with pytest.raises(errors.ServiceUnavailable, match="queue is full"):
            rest[5].result()
        words.may_go_on.set()
        assert await asyncio.gather(first, *rest[:5]) == ["good"] * 6
    assert [len(group) for group in words.batches] == [1, 3, 2]


async def test_what_waits_is_written_before_the_end_and_nothing_is_taken_after(service: Service) -> None:
    await open_holder(service)
    async with open_words(service) as (_, queue):
        waiting = asyncio.create_task(queue.submit(Word()))
        await asyncio.sleep(0)
        await queue.close()
        assert await waiting == "good"
        with pytest.raises(errors.ServiceUnavailable):
            await queue.submit(Word())


@asynccontextmanager
async def open_cut_service(database: postgres.Addresses) -> AsyncIterator[tuple[Service, Caller, Wire]]:
    async with open_wire(database) as (wire, near), open_service(near) as service:
        yield service, await open_holder(service, funds_cents=1000), wire


def a_charge(external_id: str | None = "a") -> ChargeRequest:
    return ChargeRequest(amount_cents=100, key=own_key(), external_id=external_id)


def a_transfer(external_id: str | None = "a", amount_cents: int = 600) -> AccountTransferRequest:
    return AccountTransferRequest(amount_cents=amount_cents, credit_party=outside_party(), external_id=external_id)


async def count(service: Service, table: str) -> int:
    return await service.context.pool.fetchval(f"select count(*) from {table}")


@pytest.mark.parametrize("cut", ["before", "after", "late"])
async def test_a_commit_that_was_cut_has_one_effect_and_the_right_answer(database: postgres.Addresses, cut: Cut) -> None:
    async with open_cut_service(database) as (service, caller, wire):
        wire.cuts = [cut]
        charge = await charge_usecases.create_charge(service.context, caller, a_charge())
        assert await charge_usecases.read_charge_by_external_id(service.context, caller, "a") == charge
        wire.cuts = [cut]
        view = await transfer_usecases.start_transfer(service.context, caller, a_transfer())
        assert await transfer_usecases.read_transfer_by_id(service.context, caller, view.transfer.id) == view
        wire.cuts = [cut]
        made = await ledger_usecases.deposit(service.context, caller.holder_id, 50)
        assert wire.cuts_count == 3
        balance = await ledger_usecases.read_balance(service.context, caller)
        assert (balance.available_cents, balance.reserved_cents) == (1000 - 600 + 50, 600)
        newest = (await ledger_usecases.list_transactions(service.context, caller, Span())).items[0]
        assert (newest.id, newest.created_at) == (made.id, made.created_at)
        assert (await count(service, "charge"), await count(service, "transfer")) == (1, 1)
        assert await count(service, "event") == 2


async def test_a_group_that_was_cut_twice_gives_everybody_their_own_answer(database: postgres.Addresses) -> None:
    async with open_cut_service(database) as (service, caller, wire):
        wire.cuts = ["before", "late"]
        outcomes = await asyncio.gather(
            *(
                transfer_usecases.start_transfer(service.context, caller, a_transfer(f"n{n}", amount_cents=300))
                for n in range(5)
            ),
            return_exceptions=True,
        )
        accepted = [outcome for outcome in outcomes if isinstance(outcome, TransferView)]
        assert len(accepted) == 3
        assert sum(isinstance(outcome, errors.InsufficientFunds) for outcome in outcomes) == 2
        assert await count(service, "transfer") == 3


async def test_an_absent_database_is_unknown(database: postgres.Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_cut_service(database) as (service, caller, wire):
        await service.context.ids.transfer_id()
        with monkeypatch.context() as impatient:
            impatient.setattr(timeouts, "UNKNOWN_OUTCOME_TIMEOUT_S", 0.6)
            impatient.setattr(timeouts, "UNREACHABLE_TIMEOUT_S", 0.2)
            wire.cuts, wire.is_away_after_cut = ["after"], True
            request = a_transfer(None)
            with pytest.raises(errors.OutcomeUnknown) as caught:
                await transfer_usecases.start_transfer(service.context, caller, request)
            assert "repeat" in caught.value.message
            # A request that was never sent may well be reported as such.
            new = ledger_usecases.NewDeposit(holder_id=caller.holder_id, amount_cents=1, entry_id=1)
            with pytest.raises(errors.ServiceUnavailable, match="nothing was done"):
                await service.context.writes.submit(ledger_usecases.DEPOSIT_ALL, new)
        wire.is_away = False
        (row,) = await service.context.pool.fetch("select external_id from transfer")
        assert f'external_id "{row["external_id"]}"' in caught.value.message
        again = a_transfer(row["external_id"])
        view = await transfer_usecases.start_transfer(service.context, caller, again)
        assert view.transfer.external_id == row["external_id"]
        assert (await ledger_usecases.read_balance(service.context, caller)).reserved_cents == 600


async def test_a_lock_that_stays_is_unknown(database: postgres.Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeouts, "UNKNOWN_OUTCOME_TIMEOUT_S", 0.3)
    monkeypatch.setattr(connection_pool, "LOCK_TIMEOUT_MS", 100)
    monkeypatch.setattr(Wire, "LATE_S", 300.0)
    async with open_cut_service(database) as (service, caller, wire):
        wire.cuts = ["late"]
        with pytest.raises(errors.OutcomeUnknown):
            await transfer_usecases.start_transfer(service.context, caller, a_transfer())


@pytest.mark.long
async def test_a_silently_gone_connection_delays_no_writer_for_long(database: postgres.Addresses) -> None:
    """As where a firewall forgets one connection, or one process of the server stands still: the others answer."""
    async with open_cut_service(database) as (service, _, wire), open_words(service) as (words, queue):
        assert await queue.submit(Word(text="before")) == "before"
        wire.vanish()
        first = asyncio.create_task(queue.submit(Word(text="first")))
        await asyncio.sleep(timeouts.SILENT_TIMEOUT_S / 2)
        behind = asyncio.create_task(queue.submit(Word(text="behind")))
        # Far below the driver's own timeout.
        async with asyncio.timeout(10):
            with pytest.raises(errors.ServiceUnavailable, match="nothing was done"):
                await first
            assert await behind == "behind"
        assert await words.written(service) == ["before", "behind"]


async def test_who_waited_for_a_batch_before_its_own_waits_less_for_a_lock(database: postgres.Addresses) -> None:
    """The row may be held for as long as a COMMIT waits for a standby that is gone."""
    clock = FakeClock(monotonic_s=100)
    async with open_service(database, clock=clock) as service, open_words(service) as (words, queue):
        await open_holder(service)
        words.may_go_on.clear()
        first = asyncio.create_task(queue.submit(Word(text="first")))
        await words.first_batch()
        behind = asyncio.create_task(queue.submit(Word(text="behind")))
        await asyncio.sleep(0)
        clock.advance(seconds=3)
        words.may_go_on.set()
        assert await asyncio.gather(first, behind) == ["first", "behind"]
    assert words.lock_timeouts == ["3s", "1500ms"]


async def test_two_processes_fed_the_same_ids_in_opposite_orders_agree(database: postgres.Addresses) -> None:
    clock = FakeClock()
    async with open_service(database, clock=clock) as one, open_service(database, clock=clock) as other:
        caller = await open_holder(one, funds_cents=100_000)
        charges = [a_charge(f"n{n}") for n in range(64)]
        transfers = [a_transfer(f"n{n}", amount_cents=1) for n in range(64)]

        async def start(service: Service, request: AccountTransferRequest) -> int:
            return (await transfer_usecases.start_transfer(service.context, caller, request)).transfer.id

        async def make(service: Service, request: ChargeRequest) -> Charge:
            return await charge_usecases.create_charge(service.context, caller, request)

        made = await asyncio.gather(
            asyncio.gather(*(make(one, request) for request in charges)),
            asyncio.gather(*(make(other, request) for request in reversed(charges))),
        )
        sent = await asyncio.gather(
            asyncio.gather(*(start(one, request) for request in transfers)),
            asyncio.gather(*(start(other, request) for request in reversed(transfers))),
        )
        assert made[0] == list(reversed(made[1]))
        assert sent[0] == list(reversed(sent[1]))
        assert (await count(one, "charge"), await count(one, "transfer"), await count(one, "event")) == (64, 64, 128)


_CHILD = """
import asyncio, itertools, sys
from support.postgres import Addresses
from support.service import open_service
from support.records import own_key, outside_party
from pixconnect.platform.base.errors import PixConnectError
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import ChargeRequest
from pixconnect.kernel.rules.transfer import AccountTransferRequest
from pixconnect.kernel.flows import charge, transfer

async def main(url, holder_id):
    caller = Caller(client_id="test", holder_id=holder_id, scopes=frozenset())
    async with open_service(Addresses(owner_url="", service_url=url)) as service:
        async def write(n):
            try:
                await charge.create_charge(
                    service.context, caller, ChargeRequest(amount_cents=1, key=own_key(), external_id=f"n{n}"))
                await transfer.start_transfer(service.context, caller, AccountTransferRequest(
                    amount_cents=1, credit_party=outside_party(), external_id=f"n{n}"))
            except PixConnectError:
                return  # a machine may be too busy for our timeouts: only what was answered counts
            print(f"n{n}", flush=True)
        for round in itertools.count():
            await asyncio.gather(*(write(round * 20 + n) for n in range(20)))

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


@pytest.mark.long
async def test_a_killed_process_leaves_its_answers_whole(service: Service, database: postgres.Addresses) -> None:
    caller = await open_holder(service, funds_cents=1_000_000)
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _CHILD, database.service_url, str(caller.holder_id),
        env=os.environ | {"PYTHONPATH": str(Path(postgres.__file__).parents[2])}, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert child.stdout is not None
        answered = [await child.stdout.readline() for _ in range(150)]
    finally:
        with suppress(ProcessLookupError):
            child.send_signal(signal.SIGKILL)
        rest = await child.stdout.read() if child.stdout is not None else b""
        await child.wait()
    answered += rest.splitlines()
    names = sorted(line.decode().strip() for line in answered if line.strip())
    assert len(names) >= 150
    for table in ("charge", "transfer"):
        found = await service.context.pool.fetch(
            f'select external_id from {table} where external_id = any($1) order by external_id collate "C"', names
        )
        assert [row["external_id"] for row in found] == names
    await check_books(service)
