"""The sandbox through its adapter, over HTTP with a real database."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import httpx2
import pytest
from msgspec import structs

from pixconnect.features.monitoring.service.health import check_rail
from pixconnect.features.sandbox import rules as commands
from pixconnect.features.sandbox.rail import SandboxConnection
from pixconnect.kernel.rules import rail as rails
from pixconnect.kernel.rules.holder import KeyType, parse_pix_key
from pixconnect.kernel.rules.reject_code import RAISED_BY_NETWORK, REASONS
from pixconnect.platform.base import errors
from support import sandbox as support
from support.postgres import Addresses
from support.sandbox import Sandbox, next_reports, order, outside_transfer, refund_order, reports_of


def rule(effect: str, *, times: int | None = None, probability: float | None = None, **match: object) -> commands.FaultRule:
    return commands.FaultRule(match=commands.FaultMatch(**match), effect=effect, times=times, probability=probability)


def return_of(sent: rails.Order) -> commands.OutsideReturn:
    return commands.OutsideReturn(end_to_end_id=sent.end_to_end_id, amount_cents=None, reason="MD06")


async def test_every_reject_code_is_answered_or_reported_and_then_known(sandbox: Sandbox) -> None:
    orders = {code: order(f"reject-{code.lower()}") for code in REASONS}
    expected = {code: rails.Rejected(code=code, reason=reason) for code, reason in REASONS.items()}
    answers = dict(zip(orders, await sandbox.rail.submit(list(orders.values())), strict=True))
    assert answers == {code: expected[code] if code in RAISED_BY_NETWORK else rails.Taken() for code in REASONS}
    reports = {report.report_id: report for report in await reports_of(sandbox.rail, len(REASONS))}
    for code, one in orders.items():
        same_id = one.end_to_end_id
        assert reports[same_id] == rails.RejectedReport(report_id=same_id, id=same_id, code=code, reason=REASONS[code])
    assert await sandbox.rail.query([one.end_to_end_id for one in orders.values()]) == list(expected.values())


async def test_an_account_has_the_course_of_its_entry_without_a_key(sandbox: Sandbox) -> None:
    party = structs.replace(order("reject-ac07").credit_party, key=None, key_type=None, name="X", tax_id="1")
    assert party.account_number == "2002"
    await sandbox.rail.submit([order(credit_party=party, initiation_type="MANUAL")])
    [report] = await next_reports(sandbox.rail)
    assert isinstance(report, rails.RejectedReport)
    assert report.code == "AC07"


async def test_an_order_of_nothing_is_rejected_and_spares_its_group(sandbox: Sandbox) -> None:
    answers = await sandbox.rail.submit([order(amount_cents=0), order()])
    assert answers == [rails.Rejected(code="AM01", reason=REASONS["AM01"]), rails.Taken()]


async def test_more_than_a_group_is_sent_in_groups(sandbox: Sandbox) -> None:
    orders = [order() for _ in range(600)]
    assert await sandbox.rail.submit(orders) == [rails.Taken()] * 600
    assert len(await sandbox.rail.query([one.end_to_end_id for one in orders])) == 600
    assert await sandbox.rail.submit([]) == []


async def test_a_strangers_account_is_paid(sandbox: Sandbox) -> None:
    party = structs.replace(order().credit_party, key=None, key_type=None, ispb="00000000", account_number="77")
    await sandbox.rail.submit([order(credit_party=party)])
    assert isinstance((await next_reports(sandbox.rail))[0], rails.SettledReport)


async def test_a_lost_order_gets_ab03_after_forty_seconds_of_the_sandbox_clock(sandbox: Sandbox) -> None:
    one, span, before = order("lost"), timedelta(seconds=40), datetime.now(UTC)
    assert await sandbox.rail.submit([one]) == [rails.Taken()]
    after = datetime.now(UTC)
    # Not by a move to a second before, which may be over.
    due = await sandbox.control.call(commands.READ_DUE, None)
    assert due.next_due_at is not None
    assert before + span <= due.next_due_at <= after + span
    assert due.reports_count == 0
    due = await sandbox.control.call(commands.SET_OFFSET, timedelta(seconds=41))
    assert (due.reports_count, due.next_due_at) == (1, None)
    [report] = await next_reports(sandbox.rail)
    assert isinstance(report, rails.RejectedReport)
    assert report.code == "AB03"


async def test_an_order_whose_time_is_off_is_never_taken(sandbox: Sandbox) -> None:
    orders = [order(ordered_at=datetime.now(UTC) + timedelta(hours=off)) for off in (13, -13)]
    orders.append(order(ordered_at=datetime.now(UTC) - timedelta(hours=11)))
    refund = refund_order(orders[0].end_to_end_id, ordered_at=datetime.now(UTC) - timedelta(hours=13))
    assert await sandbox.rail.submit(orders) == [rails.AlreadyKnown(), rails.AlreadyKnown(), rails.Taken()]
    assert await sandbox.rail.submit_refunds([refund]) == [rails.AlreadyKnown()]
    ids = [*(one.end_to_end_id for one in orders[:2]), refund.return_id]
    assert await sandbox.rail.query(ids) == [rails.NeverTaken()] * 3
    assert [report.report_id for report in await reports_of(sandbox.rail, 1)] == [orders[2].end_to_end_id]


async def test_an_id_never_taken_stays_so_though_the_clock_goes_back(sandbox: Sandbox) -> None:
    one = order()
    await sandbox.control.call(commands.SET_OFFSET, timedelta(hours=13))
    assert await sandbox.rail.query([one.end_to_end_id]) == [rails.NeverTaken()]
    await sandbox.control.call(commands.SET_OFFSET, timedelta(0))
    assert await sandbox.rail.submit([one]) == [rails.AlreadyKnown()]
    assert await sandbox.rail.query([one.end_to_end_id]) == [rails.NeverTaken()]
    assert await sandbox.rail.reports(0.2) == []
    with pytest.raises(commands.SandboxRefusal, match="has settled no such transfer"):
        await sandbox.control.call(commands.GIVE_BACK, return_of(one))


async def test_while_an_id_closes_the_order_under_it_is_taken_or_never(sandbox: Sandbox) -> None:
    """In either order, an order that was reported as never taken does not settle."""
    for _ in range(20):
        one = order(ordered_at=datetime.now(UTC) - timedelta(hours=12) + timedelta(minutes=1))
        closing = timedelta(minutes=2)
        _, _, [said] = await asyncio.gather(
            sandbox.rail.submit([one]),
            sandbox.control.call(commands.SET_OFFSET, closing),
            sandbox.rail.query([one.end_to_end_id]),
        )
        [later] = await sandbox.rail.query([one.end_to_end_id])
        assert not isinstance(said, rails.NeverTaken) or later == said
        await sandbox.control.call(commands.SET_OFFSET, timedelta(0))


async def test_two_groups_that_overlap_in_opposite_orders_both_end(sandbox: Sandbox) -> None:
    group = [order() for _ in range(64)]
    answers = await asyncio.gather(*(sandbox.rail.submit(way) for way in (group, group[::-1]) for _ in range(4)))
    assert sum(answer == rails.Taken() for answers_of_one in answers for answer in answers_of_one) == 64


async def test_many_payments_at_once_have_names_of_their_own(sandbox: Sandbox) -> None:
    paying = [asyncio.create_task(sandbox.control.call(commands.PAY, outside_transfer(amount_cents=1 + i))) for i in range(50)]
    await reports_of(sandbox.rail, 50)
    arrivals = await asyncio.gather(*paying)
    assert len({arrival.id for arrival in arrivals}) == 50
    assert {arrival.status for arrival in arrivals} == {"CONFIRMED"}


async def test_what_did_not_settle_cannot_be_given_back(sandbox: Sandbox) -> None:
    rejected, slow, never_sent = order("reject-ac03"), order("slow"), order()
    await sandbox.rail.submit([rejected, slow])
    await reports_of(sandbox.rail, 1)
    for one in (rejected, slow, never_sent):
        with pytest.raises(commands.SandboxRefusal) as refusal:
            await sandbox.control.call(commands.GIVE_BACK, return_of(one))
        assert refusal.value.reason == "unknown"


async def test_a_key_is_added_once_and_then_found(sandbox: Sandbox) -> None:
    keys = {"CPF": "12345678909", "CNPJ": "12ABC34501DE35", "PHONE": "+5561988887777", "EMAIL": "a@b.example"}
    for key_type, key in keys.items():
        added = await sandbox.control.call(commands.ADD_KEY, commands.NewKey(key=key, key_type=key_type, name="Loja"))
        again = await sandbox.control.call(commands.ADD_KEY, commands.NewKey(key=key, key_type=key_type, name="Other"))
        assert added == again == await sandbox.rail.lookup_key(key, "1", support.network_id())
        assert added.party.name == "Loja"
        assert added.party.tax_id == key or key_type not in ("CPF", "CNPJ")
        assert added in await sandbox.control.call(commands.LIST_KEYS, None)


@pytest.mark.parametrize("key_type", ["CPF", "CNPJ", "PHONE", "EMAIL", "EVP"])
async def test_a_key_that_is_not_named_is_made_by_the_directory(sandbox: Sandbox, key_type: KeyType) -> None:
    one, other = [await sandbox.control.call(commands.ADD_KEY, commands.NewKey(key_type=key_type)) for _ in range(2)]
    assert one.key != other.key
    assert one.party.account_number != other.party.account_number
    assert parse_pix_key(one.key, key_type).key == one.key
    assert await sandbox.rail.lookup_key(one.key, "1", support.network_id()) == one


async def test_the_same_seed_makes_the_same_things(database: Addresses, sandbox: Sandbox) -> None:
    made = await sandbox.control.call(commands.ADD_KEY, commands.NewKey(key_type="EVP"))
    paying = asyncio.create_task(sandbox.control.call(commands.PAY, outside_transfer()))
    [report] = await next_reports(sandbox.rail)
    await paying
    assert isinstance(report, rails.CreditReport)
    from pixconnect.features.sandbox.network.behaviour import Chance  # noqa: PLC0415

    assert made.key == str(Chance(1).uuid("evp", 1))
    assert report.end_to_end_id[-11:] == Chance(1).text(11, "E", 1)
    assert report.debit_party.tax_id == Chance(1).cpf("payer", 1) != Chance(2).cpf("payer", 1)


async def test_rules_are_kept_as_they_were_given_and_cleared(sandbox: Sandbox) -> None:
    rules = [rule("reject:AC03", amount_cents=7, times=2), rule("delay:20", key="a@b", probability=0.5)]
    await sandbox.control.call(commands.REPLACE_FAULTS, rules)
    assert await sandbox.control.call(commands.READ_FAULTS, None) == rules
    await sandbox.control.call(commands.REPLACE_FAULTS, [])
    assert await sandbox.control.call(commands.READ_FAULTS, None) == []


async def test_a_reject_code_that_does_not_exist_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(commands.SandboxRefusal, match="XX99"):
        await sandbox.control.call(commands.REPLACE_FAULTS, [rule("reject:XX99")])


async def test_a_rule_wins_over_what_is_always_there_and_counts_down(sandbox: Sandbox) -> None:
    await sandbox.control.call(commands.REPLACE_FAULTS, [rule("reject:AC14", amount_cents=77, times=1)])
    await sandbox.rail.submit([order("slow", amount_cents=77), order(amount_cents=77), order(amount_cents=78)])
    reports = await reports_of(sandbox.rail, 3)
    assert [report.code for report in reports if isinstance(report, rails.RejectedReport)] == ["AC14"]
    assert [one.times for one in await sandbox.control.call(commands.READ_FAULTS, None)] == [0]


async def test_an_outcome_may_come_before_the_answer(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pixconnect.features.sandbox.network.network.HELD_BACK_S", 1.5)
    await sandbox.control.call(commands.REPLACE_FAULTS, [rule("out_of_order")])
    sending = asyncio.create_task(sandbox.rail.submit([order()]))
    assert len(await next_reports(sandbox.rail)) == 1
    assert not sending.done()
    assert await sending == [rails.Taken()]


async def test_without_an_operation_questions_are_left_alone(sandbox: Sandbox) -> None:
    effects = ["no_answer", "lost", "reject:AC03", "duplicate_answer", "out_of_order"]
    await sandbox.control.call(commands.REPLACE_FAULTS, [rule(effect) for effect in effects])
    assert await sandbox.rail.lookup_key("settle@sandbox.pix.example", "1", support.network_id()) is not None
    assert await sandbox.rail.query(["E" + "0" * 31]) == [rails.Unknown()]


async def test_faults_of_look_ups(sandbox: Sandbox) -> None:
    ask = sandbox.rail.lookup_key
    await sandbox.control.call(
        commands.REPLACE_FAULTS,
        [rule("no_answer", operation="lookup", times=1), rule("reject:AC03", operation="lookup", times=1)],
    )
    with pytest.raises(rails.RailUnavailable):
        await ask("settle@sandbox.pix.example", "1", support.network_id())
    assert await ask("settle@sandbox.pix.example", "1", support.network_id()) is None
    assert await ask("settle@sandbox.pix.example", "1", support.network_id()) is not None


async def test_look_ups_at_once_are_one_exchange(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    paths: list[str] = []
    ask = SandboxConnection.ask

    async def note(connection: SandboxConnection, method: str, path: str, *rest: Any, **options: Any) -> Any:
        paths.append(path)
        return await ask(connection, method, path, *rest, **options)

    added = await sandbox.control.call(commands.ADD_KEY, commands.NewKey(key_type="EVP"))
    rules = [rule("unavailable", operation="lookup", key="slow@sandbox.pix.example", times=1), rule("reject:AC03")]
    await sandbox.control.call(commands.REPLACE_FAULTS, rules)
    monkeypatch.setattr(SandboxConnection, "ask", note)
    keys = [added.key, "settle@sandbox.pix.example", "nobody@sandbox.pix.example", "slow@sandbox.pix.example"] * 2
    answers = await asyncio.gather(
        *(sandbox.rail.lookup_key(key, "1", support.network_id()) for key in keys), return_exceptions=True
    )
    entries = [answer.key if isinstance(answer, rails.DirectoryEntry) else answer for answer in answers]
    assert [*entries[:3], *entries[4:7]] == [*keys[:2], None] * 2
    # The rule affects one of the two requests for its key.
    assert {type(answers[3]), type(answers[7])} == {rails.DirectoryEntry, rails.RailUnavailable}
    assert paths == ["/rail/lookups", "/rail/lookup", "/rail/lookup"]


async def test_a_question_that_is_delayed_waits_once_for_its_group(sandbox: Sandbox) -> None:
    await sandbox.control.call(commands.REPLACE_FAULTS, [rule("delay:200", operation="query")])
    start = asyncio.get_running_loop().time()
    await sandbox.rail.query(["E" + "0" * 31] * 50)
    assert 0.2 <= asyncio.get_running_loop().time() - start < 50 * 0.2


async def test_a_query_may_answer_what_is_no_longer_true(sandbox: Sandbox) -> None:
    one = order()
    await sandbox.rail.submit([one])
    await next_reports(sandbox.rail)
    await sandbox.control.call(commands.REPLACE_FAULTS, [rule("out_of_order", operation="query", times=1)])
    assert await sandbox.rail.query([one.end_to_end_id]) == [rails.Taken()]
    assert isinstance((await sandbox.rail.query([one.end_to_end_id]))[0], rails.Settled)


async def test_faults_of_payments(sandbox: Sandbox) -> None:
    cases = [("reject:AC06", "ERROR", "AC06"), ("lost", "PROCESSING", None), ("no_answer", "PROCESSING", None)]
    for effect, status, code in cases:
        await sandbox.control.call(commands.REPLACE_FAULTS, [rule(effect, operation="payment")])
        arrival = await sandbox.control.call(commands.PAY, outside_transfer())
        assert (arrival.status, arrival.code) == (status, code), effect
        is_reported = effect == "no_answer"
        assert len(await next_reports(sandbox.rail, 20 if is_reported else 0.2)) == is_reported, effect


async def test_a_delayed_payment_is_dated_when_it_comes(sandbox: Sandbox) -> None:
    await sandbox.control.call(commands.REPLACE_FAULTS, [rule("delay:200", operation="payment")])
    start = datetime.now(UTC)
    paying = asyncio.create_task(sandbox.control.call(commands.PAY, outside_transfer()))
    [report] = await next_reports(sandbox.rail)
    assert isinstance(report, rails.CreditReport)
    assert report.reported_at - start >= timedelta(milliseconds=200)
    assert (await paying).status == "CONFIRMED"


async def test_a_payment_out_of_order_is_overtaken(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pixconnect.features.sandbox.network.outside.OVERTAKEN_BY_MS", 3_000)
    await sandbox.control.call(commands.REPLACE_FAULTS, [rule("out_of_order", operation="payment", times=1)])
    paying = [asyncio.create_task(sandbox.control.call(commands.PAY, outside_transfer(amount_cents=1)))]
    async with asyncio.timeout(60):
        while (await sandbox.control.call(commands.READ_FAULTS, None))[0].times:  # noqa: ASYNC110  until the first has come
            await asyncio.sleep(0.01)
    paying.append(asyncio.create_task(sandbox.control.call(commands.PAY, outside_transfer(amount_cents=2))))
    seen = await reports_of(sandbox.rail, 2)
    assert [report.amount_cents for report in seen if isinstance(report, rails.CreditReport)] == [2, 1]
    await asyncio.gather(*paying)


async def test_a_probability_of_a_half_strikes_about_half_and_the_same_for_a_seed(sandbox: Sandbox) -> None:
    await sandbox.control.call(commands.REPLACE_FAULTS, [rule("unavailable", probability=0.5, operation="submit")])
    first = await sandbox.rail.submit([order() for _ in range(200)])
    struck = [answer == rails.NotTaken() for answer in first]
    assert 60 < sum(struck) < 140
    await sandbox.control.call(commands.REPLACE_FAULTS, [rule("unavailable", probability=0.5, operation="submit")])
    # Under other ids: the service makes them at random.
    again = await sandbox.rail.submit([order() for _ in range(200)])
    assert [answer == rails.NotTaken() for answer in again] == struck


async def test_a_static_code_names_its_key(sandbox: Sandbox) -> None:
    from pixconnect.kernel.rules import br_code  # noqa: PLC0415

    code = br_code.parse_br_code(
        await sandbox.control.call(commands.MAKE_QR_CODE, commands.NewQrCode(kind="static", amount_cents=150, txid="ABC"))
    )
    assert (code.kind, code.key, code.amount_cents, code.txid) == ("static", "settle@sandbox.pix.example", 150, "ABC")


async def test_a_dynamic_code_is_paid_once_and_exactly(sandbox: Sandbox) -> None:
    await sandbox.control.call(commands.MAKE_QR_CODE, commands.NewQrCode(kind="dynamic", amount_cents=150, txid="a" * 32))
    wrong, first, second = (order(txid="a" * 32, amount_cents=cents) for cents in (149, 150, 150))
    assert await sandbox.rail.submit([wrong, first, second]) == [rails.Taken(), rails.Taken(), rails.Taken()]
    reports = await reports_of(sandbox.rail, 3)
    outcomes = {report.report_id: getattr(report, "code", None) for report in reports}
    assert [outcomes[one.end_to_end_id] for one in (wrong, first, second)] == ["AM09", None, "BE17"]
    third = order(txid="a" * 32, amount_cents=150)
    await sandbox.rail.submit([third])
    assert getattr((await next_reports(sandbox.rail))[0], "code", None) == "BE17"


async def test_parts_that_make_no_code_are_named(sandbox: Sandbox) -> None:
    cases = {
        commands.NewQrCode(kind="dynamic"): "amount",
        commands.NewQrCode(kind="dynamic", amount_cents=1, txid="short"): "txid",
        commands.NewQrCode(kind="static", txid="x" * 26): "txid",
        commands.NewQrCode(kind="static", key="nonsense"): "key",
    }
    for new, named in cases.items():
        with pytest.raises(commands.SandboxRefusal, match=named):
            await sandbox.control.call(commands.MAKE_QR_CODE, new)


async def test_what_is_slow_is_due_when_the_clock_gets_there(sandbox: Sandbox) -> None:
    one = order("slow")
    await sandbox.rail.submit([one])
    assert await sandbox.rail.query([one.end_to_end_id]) == [rails.Taken()]
    due = await sandbox.control.call(commands.READ_DUE, None)
    assert due.next_due_at is not None
    assert due.reports_count == 0
    offset = due.next_due_at - datetime.now(UTC)
    assert (await sandbox.control.call(commands.SET_OFFSET, offset)).reports_count == 1
    [report] = await next_reports(sandbox.rail)
    assert isinstance(report, rails.SettledReport)
    assert report.settled_at == due.next_due_at


async def test_moving_back_keeps_what_has_settled_and_brings_open_deadlines_nearer(sandbox: Sandbox) -> None:
    await sandbox.control.call(commands.SET_OFFSET, timedelta(days=10))
    moved = datetime.now(UTC) + timedelta(days=10)
    settled, later = order(ordered_at=moved), order("lost", ordered_at=moved)
    assert await sandbox.rail.submit([settled, later]) == [rails.Taken(), rails.Taken()]
    assert isinstance(await _settled(sandbox, settled.end_to_end_id), rails.Settled)
    due = await sandbox.control.call(commands.SET_OFFSET, timedelta(0))
    assert due.next_due_at is not None
    assert timedelta(seconds=30) < due.next_due_at - datetime.now(UTC) <= timedelta(seconds=40)
    assert due.reports_count == 1
    [answer] = await sandbox.rail.query([settled.end_to_end_id])
    assert isinstance(answer, rails.Settled)
    assert answer.settled_at > moved, "an instant that was told stays what it was"


async def test_nobody_gets_in_without_the_secret(sandbox: Sandbox) -> None:
    async with support.connected(sandbox.url, "wrong") as (rail, control):
        assert await rail.submit([order()]) == [rails.NotTaken()]
        with pytest.raises(errors.ServiceUnavailable, match=r"^the rail refuses our key: start it with"):
            await check_rail(rail, partial(asyncio.sleep, 0, ()))
        with pytest.raises(commands.SandboxKeyRefused):
            await control.call(commands.LIST_KEYS, None)
    async with httpx2.AsyncClient(trust_env=False) as client:
        assert (await client.get(f"{sandbox.url}/rail/check")).status_code == 401


async def test_a_refused_connection_took_nothing() -> None:
    async with support.connected("http://127.0.0.1:1") as (rail, control):
        assert await rail.submit([order()]) == [rails.NotTaken()]
        with pytest.raises(rails.RailUnavailable):
            await rail.reports(0)
        with pytest.raises(commands.SandboxUnavailable) as raised:
            await control.call(commands.PAY, outside_transfer())
        assert not isinstance(raised.value, commands.SandboxSilent)
        with pytest.raises(commands.SandboxUnavailable):
            await control.call(commands.READ_DUE, None)


async def test_a_payment_from_outside_whose_answer_is_late_may_have_been_made(sandbox: Sandbox) -> None:
    with pytest.raises(commands.SandboxSilent):
        await sandbox.control.call(structs.replace(commands.PAY, timeout_s=2.0), outside_transfer(txid="slow"))
    [report] = await next_reports(sandbox.rail)
    assert isinstance(report, rails.CreditReport)
    assert report.txid == "slow"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 500 X\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n[{",
        b"HTTP/1.1 503 X\r\nContent-Length: 99\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n[null]\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n[null, null]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + b" " * 100,
    ],
)
async def test_a_broken_answer_leaves_everything_open(answer: bytes) -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(break_off, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with support.connected(f"http://127.0.0.1:{port}") as (rail, _):
            assert await rail.submit([order(), order()]) == [rails.Unknown(), rails.Unknown()]
            with pytest.raises(rails.RailUnavailable):
                await rail.query(["E" + "0" * 31])


@asynccontextmanager
async def answering_in_turn(*answers: bytes) -> AsyncIterator[tuple[str, list[int]]]:
    """Answers each request except the last, over any number of connections, and counts requests by connection."""
    counts: list[int] = []
    left = iter(answers)
    ended: list[asyncio.Event] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        counts.append(0)
        ended.append(asyncio.Event())
        mine = len(counts) - 1
        with suppress(ConnectionError):  # the adapter may hang up in any way
            while await reader.read(4096):
                counts[mine] += 1
                text = next(left, b"")
                writer.write(text)
                if not text:
                    break
            writer.close()
            await writer.wait_closed()
        ended[mine].set()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", counts
        for each in ended:  # the adapter has closed its side by now
            await asyncio.wait_for(each.wait(), 60)


def answer_of(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


async def test_a_kept_connection_that_is_cut_with_our_order_in_it_leaves_it_open_and_sends_it_once() -> None:
    async with answering_in_turn(answer_of(b"[]")) as (url, counts), support.connected(url) as (rail, _):
        assert await rail.reports(0) == []
        assert await rail.submit([order()]) == [rails.Unknown()]
        assert counts == [2]


async def test_a_connection_is_used_again_unless_it_was_idle_for_long() -> None:
    for idle_s, expected in ((60.0, [3]), (0.0, [1, 1, 1])):
        async with answering_in_turn(*[answer_of(b"[]")] * 3) as (url, counts):
            async with support.connected(url, idle_s=idle_s) as (rail, _):
                assert [await rail.reports(0) for _ in range(3)] == [[], [], []]
            assert counts == expected


async def _settled(sandbox: Sandbox, order_id: str) -> object:
    async with asyncio.timeout(60):
        while True:
            [answer] = await sandbox.rail.query([order_id])
            if answer != rails.Taken():
                return answer
            await asyncio.sleep(0.01)
