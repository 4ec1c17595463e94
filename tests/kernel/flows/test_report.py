"""Reports of the rail are recorded, then acknowledged; those that could not be recorded come again."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import asyncpg
import msgspec
import pytest
from msgspec import structs

from pixconnect.kernel.flows import incoming, settlement
from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.flows import report as report_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.context import LASTING_MIN_S, FailedReports
from pixconnect.kernel.flows.report import CREDITED, take_reports
from pixconnect.kernel.flows.settlement import end_orders
from pixconnect.kernel.rules import rail as rails
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.kept_report import Misfit
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.platform.base import errors
from support import operators
from support.books import check_books
from support.operators import as_operator
from support.postgres import Addresses
from support.records import ISPB, OUTSIDE_ISPB, a_return, a_transfer, outside_party
from support.service import STARTED_AT, Service, credit_report, open_holder, open_service, send_out

if TYPE_CHECKING:
    from pixconnect.kernel.flows.context import Context


async def send(service: Service, caller: Caller) -> Transfer:
    return await send_out(service, caller, 1000)


def refusing_soon(service: Service) -> "Context":
    """Refuses a report that has failed often, however short the time was."""
    return structs.replace(service.context, failed_reports=FailedReports(lasting_min_s=0.0))


def settled(transfer: Transfer, report_id: str = "s") -> rails.SettledReport:
    return rails.SettledReport(report_id=report_id, id=transfer.end_to_end_id, settled_at=STARTED_AT)


async def test_a_batch_of_everything_twice_is_recorded_once(service: Service, caller: Caller) -> None:
    kept, lost = await send(service, caller), await send(service, caller)
    batch: list[rails.Report] = [
        settled(kept),
        rails.RejectedReport(report_id="x", id=lost.end_to_end_id, code="AC03", reason="no"),
        credit_report(service, report_id="c", amount_cents=70),
        credit_report(service, report_id="n", txid=None, account_number="404"),
        rails.SettledReport(report_id="f", id=f"E{OUTSIDE_ISPB}202607011500abcdefghijk", settled_at=STARTED_AT),
    ]
    assert await take_reports(service.context, [*batch, *batch]) == 10
    assert await take_reports(service.context, batch) == 5
    said = {(one.report_id, one.refusal_code) for one in service.rail.acknowledged}
    assert said == {("s", None), ("x", None), ("c", None), ("n", "AC03"), ("f", None)}
    balance = await ledger_usecases.read_balance(service.context, caller)
    assert (balance.available_cents, balance.reserved_cents) == (1_000_000 - 1000 + 70, 0)
    await check_books(service)


async def test_a_return_before_its_settlement_waits_for_the_next_batch(service: Service, caller: Caller) -> None:
    transfer = await send(service, caller)
    returned = a_return(transfer.end_to_end_id)
    assert await take_reports(service.context, [returned]) == 0
    assert service.rail.acknowledged == []
    await take_reports(service.context, [returned, settled(transfer)])
    await take_reports(service.context, [returned])
    assert rails.Acknowledgement(report_id="r") in service.rail.acknowledged
    assert (await ledger_usecases.read_balance(service.context, caller)).available_cents == 1_000_000
    await check_books(service)


def let_takers(monkeypatch: pytest.MonkeyPatch, take: Callable[..., object]) -> None:
    """Let the kernel's takers do this with a report."""
    find_taker = report_usecases.find_taker
    monkeypatch.setattr(report_usecases, "find_taker", lambda kind: structs.replace(find_taker(kind), take=take))


async def test_an_acknowledgement_is_durable(service: Service, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    transfer, other = await send(service, caller), await send(service, caller)

    async def fail_one(context: object, endings: list[tuple[str, object]]) -> list[errors.PixConnectError | None]:
        return [errors.ServiceUnavailable("away") if name == transfer.end_to_end_id else None for name, _ in endings]

    async def fail(context: object, report: object) -> rails.Acknowledgement:
        raise errors.OutcomeUnknown("away")

    with monkeypatch.context() as patch:
        patch.setattr(report_usecases, "end_orders", fail_one)
        let_takers(patch, fail)
        assert await take_reports(service.context, [settled(transfer), settled(other, "o"), credit_report(service)]) == 1
    assert [one.report_id for one in service.rail.acknowledged] == ["o"]


async def test_a_deaf_rail_reports_again_and_nothing_changes(service: Service, caller: Caller) -> None:
    reports: list[rails.Report] = [settled(await send(service, caller)), credit_report(service)]
    service.rail.is_reachable = False
    with pytest.raises(rails.RailUnavailable):
        await take_reports(service.context, reports)
    service.rail.is_reachable = True
    before = await ledger_usecases.read_balance(service.context, caller)
    assert await take_reports(service.context, reports) == 2
    assert await ledger_usecases.read_balance(service.context, caller) == before
    await check_books(service)


async def waiting(service: Service) -> list[tuple[str, str, str, int]]:
    """Kind, reason, name and how often it was seen, of each report that waits, oldest first."""
    kept = await kept_usecases.list_kept(service.context, with_closed=False)
    return [(one.kind, one.reason, one.name, one.seen_count) for one in reversed(kept)]


async def test_a_settlement_of_ours_that_we_do_not_know_is_kept_before_it_is_acknowledged(
    service: Service, caller: Caller
) -> None:
    """The database was restored to its state before this transfer."""
    forgotten = f"E{ISPB}202607011500abcdefghijk"
    reports: list[rails.Report] = [
        rails.SettledReport(report_id="s", id=forgotten, settled_at=STARTED_AT),
        rails.RejectedReport(report_id="x", id=f"D{ISPB}202607011500abcdefghijk", code="AC03", reason="no"),
        rails.SettledReport(report_id="n", id="nonsense", settled_at=STARTED_AT),
    ]
    for _ in range(3):
        assert await take_reports(service.context, reports) == 3
    assert await waiting(service) == [
        ("settled", "unknown_order", forgotten, 3),
        ("rejected", "unknown_order", f"D{ISPB}202607011500abcdefghijk", 3),
        ("settled", "unknown_order", "nonsense", 3),
    ]
    assert {one.report_id for one in service.rail.acknowledged} == {"s", "x", "n"}
    [first, *_] = reversed(await kept_usecases.list_kept(service.context, with_closed=False))
    assert json.loads(first.report) == {
        "type": "settled", "report_id": "s", "id": forgotten, "settled_at": "2026-07-01T15:00:00Z"
    }  # fmt: skip


async def test_an_unkept_one_is_not_answered(service: Service, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise OSError("the database is away")

    monkeypatch.setattr(kept_usecases, "keep", fail)
    unknown = rails.SettledReport(report_id="s", id=f"E{ISPB}202607011500abcdefghijk", settled_at=STARTED_AT)
    assert await take_reports(service.context, [unknown, credit_report(service, report_id="c")]) == 1
    assert [one.report_id for one in service.rail.acknowledged] == ["c"]


async def test_deleted_transfers_are_unknown_here(service: Service, caller: Caller, database: Addresses) -> None:
    transfer = await send(service, caller)
    service.context.under_way.keep(transfer.end_to_end_id, transfer)
    for table in ("open_order", "transfer"):
        await delete_rows(database, table)
    assert await take_reports(service.context, [settled(transfer)]) == 1
    assert [reason for _, reason, _, _ in await waiting(service)] == ["unknown_order"]


async def delete_rows(database: Addresses, table: str) -> None:
    owner = await asyncpg.connect(database.owner_url)
    try:
        await owner.execute(f"set session_replication_role = 'replica'; delete from pixconnect.{table}")
    finally:
        await owner.close()


@pytest.mark.parametrize(("is_settled_first", "is_together"), [(True, True), (True, False), (False, False)])
async def test_a_contradiction_changes_nothing(
    service: Service, caller: Caller, is_settled_first: bool, is_together: bool
) -> None:
    transfer = await send(service, caller)
    said: list[rails.Report] = [
        settled(transfer, "s"),
        rails.RejectedReport(report_id="x", id=transfer.end_to_end_id, code="AC03", reason="no"),
    ]
    first, second = said if is_settled_first else said[::-1]
    await take_reports(service.context, [first, second] if is_together else [first])
    before = await ledger_usecases.read_balance(service.context, caller)
    for _ in range(2):
        assert await take_reports(service.context, [first, second]) == 2
    assert await ledger_usecases.read_balance(service.context, caller) == before
    kind = "rejected" if is_settled_first else "settled"
    assert await waiting(service) == [(kind, "contradiction", transfer.end_to_end_id, 3 if is_together else 2)]
    await check_books(service)


@pytest.mark.parametrize("change", ["amount", "holder", "nobody", "txid", "payer"])
async def test_a_repeat_with_other_contents_gets_the_first(service: Service, caller: Caller, change: str) -> None:
    await open_holder(service, account_number="2")
    first = credit_report(service, amount_cents=500)
    other = credit_report(service, account_number="2" if change == "holder" else "404" if change == "nobody" else "1")
    changes: dict[str, object] = {
        "amount": {"amount_cents": 900},
        "holder": {"credit_party": other.credit_party},
        "nobody": {"credit_party": other.credit_party},
        "txid": {"txid": "another"},
        "payer": {"debit_party": outside_party(account_number="777")},
    }[change]
    again = msgspec.structs.replace(first, **changes)  # type: ignore[arg-type]
    assert await take_reports(service.context, [first]) == 1
    for _ in range(3):
        assert await take_reports(service.context, [again, first]) == 2
    assert {one.refusal_code for one in service.rail.acknowledged} == {None}
    assert await waiting(service) == [("credit", "changed_repeat", first.end_to_end_id, 3)]
    assert (await ledger_usecases.read_balance(service.context, caller)).available_cents == 1_000_500
    await check_books(service)


async def test_two_contents_of_one_payment_in_one_batch_are_credited_once(service: Service, caller: Caller) -> None:
    first = credit_report(service, amount_cents=500)
    again = msgspec.structs.replace(first, amount_cents=900)
    assert await take_reports(service.context, [first, again]) == 2
    assert [reason for _, reason, _, _ in await waiting(service)] == ["changed_repeat"]
    available_cents = (await ledger_usecases.read_balance(service.context, caller)).available_cents
    assert available_cents in {1_000_500, 1_000_900}
    await check_books(service)


async def test_a_return_with_other_contents_gets_its_first_answer(service: Service, caller: Caller) -> None:
    transfer, other = await send(service, caller), await send(service, caller)
    await take_reports(service.context, [settled(transfer), settled(other), a_return(transfer.end_to_end_id)])
    await take_reports(service.context, [a_return(transfer.end_to_end_id)])
    unknown = f"E{ISPB}202607011500abcdefghijk"
    for changed in ({"amount_cents": 500}, *({"original_end_to_end_id": one} for one in (other.end_to_end_id, unknown))):
        assert await take_reports(service.context, [a_return(transfer.end_to_end_id, **changed)]) == 1
    assert {one.refusal_code for one in service.rail.acknowledged if one.report_id == "r"} == {None}
    assert [(kind, reason) for kind, reason, _, _ in await waiting(service)] == [("return", "changed_repeat")] * 3
    assert (await ledger_usecases.read_balance(service.context, caller)).available_cents == 1_000_000 - 2000 + 1000
    await check_books(service)


async def test_a_return_of_ours_that_we_do_not_know_is_kept_and_refused(service: Service) -> None:
    unknown = a_return(f"E{ISPB}202607011500abcdefghijk", amount_cents=400)
    for _ in range(2):
        assert await take_reports(service.context, [unknown]) == 1
    assert {one.refusal_code for one in service.rail.acknowledged} == {"AM09"}
    assert await waiting(service) == [("return", "unknown_order", unknown.return_id, 2)]


async def test_closing_says_who_and_why_and_ends_the_waiting_for_good(service: Service, caller: Caller) -> None:
    unknown = rails.SettledReport(report_id="s", id=f"E{ISPB}202607011500abcdefghijk", settled_at=STARTED_AT)
    await take_reports(service.context, [unknown])
    [kept] = await kept_usecases.list_kept(service.context, with_closed=False)
    with pytest.raises(errors.BadRequest):
        await kept_usecases.close_kept(as_operator(service.context, "maria@desk"), kept.id, " ")
    closed = await kept_usecases.close_kept(as_operator(service.context, "maria@desk"), kept.id, "booked by hand")
    assert (closed.closed_by, closed.close_reason, closed.closed_at is not None) == ("maria@desk", "booked by hand", True)
    with pytest.raises(errors.NotFound, match="closed already"):
        await kept_usecases.close_kept(as_operator(service.context, "joao@desk"), kept.id, "again")
    with pytest.raises(errors.NotFound, match="there is none"):
        await kept_usecases.close_kept(as_operator(service.context, "joao@desk"), kept.id + 1, "again")
    assert await take_reports(service.context, [unknown]) == 1
    assert await waiting(service) == []
    [seen] = await kept_usecases.list_kept(service.context, with_closed=True)
    assert (seen.seen_count, seen.closed_by) == (2, "maria@desk")
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await operators.execute(service.context, "update kept_report set closed_by = 'nobody'")


# What cannot be recorded.

POISONS = ["\0", "a\0b", "\ud800"]


def poisoned(service: Service, poison: str) -> list[rails.Report]:
    credit = credit_report(service, report_id="k")
    key = msgspec.structs.replace(credit.credit_party, key=f"x{poison}")
    name = msgspec.structs.replace(credit.debit_party, name=f"x{poison}")
    return [
        msgspec.structs.replace(credit, credit_party=key),
        msgspec.structs.replace(credit_report(service, report_id="p"), debit_party=name),
        msgspec.structs.replace(credit_report(service, report_id="e"), end_to_end_id=f"E{poison}"),
        a_return(a_transfer().end_to_end_id, report_id="d", description=poison),
        rails.SettledReport(report_id="s", id=f"E{poison}", settled_at=STARTED_AT),
        rails.RejectedReport(report_id="x", id=f"E{poison}", code=poison, reason=poison),
    ]


@pytest.mark.parametrize("poison", POISONS)
async def test_poisoned_reports_are_kept_and_hold_back_nothing(service: Service, caller: Caller, poison: str) -> None:
    transfer = await send(service, caller)
    reports = [*poisoned(service, poison), settled(transfer, "ok"), credit_report(service, report_id="good")]
    for _ in range(2):
        assert await take_reports(service.context, reports) == len(reports)
    assert {(one.report_id, one.refusal_code) for one in service.rail.acknowledged} == {
        ("k", "CH16"), ("p", "CH16"), ("e", "CH16"), ("d", "CH16"), ("s", None), ("x", None), ("ok", None), ("good", None),
    }  # fmt: skip
    kept = await kept_usecases.list_kept(service.context, with_closed=False)
    assert [(one.reason, one.seen_count) for one in kept] == [("cannot_be_recorded", 2)] * 6
    assert (await ledger_usecases.read_balance(service.context, caller)).available_cents == 1_000_000 - 1000 + 1000
    await check_books(service)


@pytest.mark.parametrize(
    "changes", [{"amount_cents": 0}, {"amount_cents": 2**70}, {"end_to_end_id": "E1"}, {"txid": ""}, {"txid": "t" * 36}]
)
async def test_impossible_payments_are_refused(service: Service, caller: Caller, changes: dict[str, object]) -> None:
    report = msgspec.structs.replace(credit_report(service), **changes)  # type: ignore[arg-type]
    assert await take_reports(service.context, [report]) == 1
    assert service.rail.acknowledged == [rails.Acknowledgement(report_id="r1", refusal_code="CH16")]
    assert len(await waiting(service)) == 1


async def test_a_rejection_counts_whatever_its_words_are(service: Service, caller: Caller) -> None:
    transfer = await send(service, caller)
    ending = rails.RejectedReport(report_id="x", id=transfer.end_to_end_id, code="AC03", reason="no " + "x" * 5000)
    assert await take_reports(service.context, [ending]) == 1
    assert await end_orders(
        service.context, [((other := await send(service, caller)).end_to_end_id, rails.Rejected(code="\0", reason="a\0b"))]
    ) == [None]
    assert (await transfer_usecases.read_transfer_by_id(service.context, caller, other.id)).transfer.status == "ERROR"
    assert await waiting(service) == []
    await check_books(service)


@pytest.fixture
def defect(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Amounts that the service fails to record, as if by a defect."""
    amounts: list[int] = []
    settle = settlement.transfer_rules.settle_transfer

    def fail(transfer: Transfer, *arguments: object) -> Transfer:
        if transfer.amount_cents in amounts:
            raise ZeroDivisionError
        return settle(transfer, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(settlement.transfer_rules, "settle_transfer", fail)
    return amounts


async def test_what_a_defect_cannot_record_is_refused(service: Service, caller: Caller, defect: list[int]) -> None:
    service.clock.stand_still()
    defect.append(666)
    bad, good = credit_report(service, amount_cents=666, report_id="bad"), credit_report(service, report_id="good")
    for _ in range(5):
        assert await take_reports(service.context, [bad, good]) == 1
    assert await waiting(service) == []
    # A float of seconds that grew by so many may be a little less than that later.
    service.clock.advance(seconds=LASTING_MIN_S + 1)
    assert await take_reports(service.context, [bad, good]) == 2
    assert rails.Acknowledgement(report_id="bad", refusal_code="AB09") in service.rail.acknowledged
    assert await waiting(service) == [("credit", "cannot_be_recorded", bad.end_to_end_id, 1)]
    defect.clear()  # it was repaired, and the rail did not get our answer
    service.rail.acknowledged.clear()
    assert await take_reports(service.context, [bad]) == 1
    assert service.rail.acknowledged == [rails.Acknowledgement(report_id="bad", refusal_code="AB09")]
    assert (await ledger_usecases.read_balance(service.context, caller)).available_cents == 1_001_000
    await check_books(service)


async def test_what_was_recorded_after_all_is_not_refused(
    service: Service, caller: Caller, defect: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = refusing_soon(service)
    report = credit_report(service)

    async def record_and_fail(context: "Context", one: rails.CreditReport) -> rails.Acknowledgement:
        await incoming.receive_credit(context, one)
        raise ZeroDivisionError

    let_takers(monkeypatch, record_and_fail)
    assert [await take_reports(context, [report]) for _ in range(3)] == [0, 0, 1]
    assert service.rail.acknowledged == [rails.Acknowledgement(report_id="r1")]
    assert (await ledger_usecases.read_balance(service.context, caller)).available_cents == 1_001_000


async def test_whoever_refuses_and_whoever_credits_at_once_agree(service: Service, caller: Caller, database: Addresses) -> None:
    """Two workers of two versions: one cannot record it, the other can."""
    misfit = Misfit(reason="cannot_be_recorded", explanation="a defect")
    reports = [credit_report(service, report_id=f"c{n}") for n in range(20)]
    async with open_service(database, clock=service.clock) as other:
        words = await asyncio.gather(
            *(report_usecases._refuse(service.context, report, CREDITED, misfit, "AB09") for report in reports),
            *(incoming.receive_credit(other.context, report) for report in reports),
        )
    refused, credited = words[:20], words[20:]
    assert [one.refusal_code for one in refused] == [one.refusal_code for one in credited]
    count = sum(one.refusal_code is None for one in credited)
    assert (await ledger_usecases.read_balance(service.context, caller)).available_cents == 1_000_000 + 1000 * count
    await check_books(service)


@pytest.mark.parametrize(
    "failure",
    [OSError("away"), asyncpg.ReadOnlySQLTransactionError("standby"), asyncpg.UniqueViolationError("ids went back"),
     asyncpg.UndefinedTableError("being migrated"), errors.ServiceUnavailable("full"), errors.OutcomeUnknown("lost")],
)  # fmt: skip
async def test_a_database_that_is_away_never_turns_good_reports_into_kept_ones(
    service: Service, caller: Caller, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    context = refusing_soon(service)
    transfer = await send(service, caller)
    reports: list[rails.Report] = [settled(transfer), credit_report(service), a_return(transfer.end_to_end_id)]

    async def fail(*_: object) -> rails.Acknowledgement:
        raise failure

    async def fail_inside(*_: object) -> rails.Acknowledgement:
        raise errors.InternalError("internal error") from failure

    for failing in (fail, fail_inside):
        with monkeypatch.context() as patch:
            patch.setattr(report_usecases, "end_orders", failing)
            let_takers(patch, failing)
            assert [await take_reports(context, reports) for _ in range(5)] == [0] * 5
    assert await waiting(service) == []
    assert await take_reports(context, reports) >= 2


async def test_a_bad_ending_is_kept_in_time(service: Service, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    context = refusing_soon(service)
    transfers = [await send(service, caller) for _ in range(3)]
    original = settlement.transfer_rules.settle_transfer

    def refuse_one(transfer: Transfer, *arguments: object) -> Transfer:
        if transfer.id == transfers[1].id:
            raise ZeroDivisionError
        return original(transfer, *arguments)  # type: ignore[arg-type]

    reports = [settled(transfer, f"s{n}") for n, transfer in enumerate(transfers)]
    with monkeypatch.context() as patch:
        patch.setattr(settlement.transfer_rules, "settle_transfer", refuse_one)
        assert [await take_reports(context, reports) for _ in range(3)] == [2, 2, 3]
    assert [(reason, name) for _, reason, name, _ in await waiting(service)] == [
        ("cannot_be_recorded", transfers[1].end_to_end_id)
    ]
    await take_reports(service.context, reports)  # repaired: the rail may repeat it, or is asked
    assert (await ledger_usecases.read_balance(service.context, caller)).reserved_cents == 0
    await check_books(service)


async def test_a_breaking_word_is_passed_on(service: Service, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    acknowledge = service.rail.acknowledge

    async def break_on_one(words: Sequence[rails.Acknowledgement]) -> None:
        if any(word.report_id == "c1" for word in words):
            raise UnicodeEncodeError("utf-8", "", 0, 1, "surrogates not allowed")
        await acknowledge(words)

    monkeypatch.setattr(service.rail, "acknowledge", break_on_one)
    reports = [credit_report(service, report_id=f"c{n}") for n in range(4)]
    assert await take_reports(service.context, reports) == 3
    assert [one.report_id for one in service.rail.acknowledged] == ["c0", "c2", "c3"]
