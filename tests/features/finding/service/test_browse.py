"""Lists of the console: filters and pages, of one holder or of all."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec import structs

from pixconnect.doors.console.wanted import Wanted
from pixconnect.features.finding.service import browse, search
from pixconnect.features.finding.service.browse import Browsed
from pixconnect.features.webhooks.rules.endpoint import EndpointRequest
from pixconnect.features.webhooks.service import endpoint as endpoint_usecases
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.rules.access import SCOPES, Caller, Viewer
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.event import EVENT_NAMES
from pixconnect.platform.base import errors
from support.records import own_key
from support.service import FakeClock, Service, credit_report, make_charge, open_holder

_ALL = Viewer(holder_id=None, scopes=frozenset(SCOPES))


def _viewer(caller: Caller, *scopes: str) -> Viewer:
    return Viewer(holder_id=caller.holder_id, scopes=frozenset(scopes or SCOPES))


@pytest.fixture
async def other(service: Service) -> Caller:
    return await open_holder(service, account_number="2")


async def _make(service: Service, caller: Caller, count: int, account: str = "1") -> list[Charge]:
    made: list[Charge] = []
    for number in range(1, count + 1):
        service.clock.advance(minutes=7)
        made.append(await make_charge(service, caller, amount_cents=number * 100, key=own_key(account)))
        if number % 3 == 0:
            service.clock.advance(seconds=1)
            report = credit_report(
                service, amount_cents=number * 100, txid=made[-1].txid, report_id=f"{account}-{number}",
                account_number=account,
            )  # fmt: skip
            await receive_credit(service.context, report)
    return made


async def _ids(read: Callable[[str | None], Awaitable[Browsed[Any]]]) -> tuple[list[int], list[int | None]]:
    """The ids of all pages, and the totals on each."""
    ids, totals, after = list[int](), list[int | None](), None
    while True:
        page = await read(after)
        ids += [item.id for item in page.items]
        totals.append(page.total_count)
        if page.next is None:
            return ids, totals
        after = page.next


async def test_what_an_index_knows_is_listed_with_its_total(service: Service, caller: Caller, other: Caller) -> None:
    made = await _make(service, caller, 12)
    await _make(service, other, 3, "2")

    async def read(after: str | None, **wanted: Any) -> Browsed[Charge]:
        return await browse.browse(service.context, _viewer(caller), browse.CHARGES, Wanted(**wanted), after, 5)

    ids, totals = await _ids(read)
    assert ids == [charge.id for charge in reversed(made)]
    assert totals == [12, 12, 12]
    pending, totals = await _ids(lambda after: read(after, statuses=("PENDING",)))
    assert (len(pending), totals) == (8, [8, 8])
    both, _ = await _ids(lambda after: read(after, statuses=("PENDING", "APPROVED"), initial_at=made[5].created_at))
    assert both == [charge.id for charge in reversed(made[5:])]


async def test_what_no_index_knows_is_looked_for_page_by_page(service: Service, caller: Caller, other: Caller) -> None:
    made = await _make(service, caller, 12)
    await _make(service, other, 6, "2")

    async def read(after: str | None, **wanted: Any) -> Browsed[Charge]:
        return await browse.browse(service.context, _viewer(caller), browse.CHARGES, Wanted(**wanted), after, 2)

    ids, totals = await _ids(lambda after: read(after, amount_min_cents=300, amount_max_cents=700))
    assert ids == [charge.id for charge in reversed(made[2:7])]
    assert set(totals) == {None}
    paid, _ = await _ids(lambda after: read(after, amount_min_cents=300, statuses=("APPROVED",)))
    assert paid == [charge.id for charge in reversed(made[2::3])]

    async def transfers(**wanted: Any) -> list[int]:
        found = await browse.browse(service.context, _viewer(caller), browse.TRANSFERS, Wanted(**wanted))
        return [transfer.amount_cents for transfer in found.items]

    assert await transfers(direction="IN", amount_max_cents=600) == [600, 300]
    assert await transfers(direction="OUT") == []
    name = (await browse.browse(service.context, _viewer(caller), browse.TRANSFERS, Wanted())).items[0].counterparty.name
    assert len(await transfers(counterparty=name[1:-1].upper())) == 4
    assert len(await transfers(counterparty=" ".join(reversed(name.replace("a", "ã").split())))) == 4
    assert await transfers(counterparty="%") == await transfers(counterparty="nobody") == []
    refunds = await browse.browse(service.context, _viewer(caller), browse.REFUNDS, Wanted(counterparty=name))
    assert refunds.items == []


async def test_all_holders_are_listed_together_by_their_ids(service: Service, caller: Caller, other: Caller) -> None:
    made = [*await _make(service, caller, 5), *await _make(service, other, 4, "2")]

    async def read(after: str | None, **wanted: Any) -> Browsed[Charge]:
        return await browse.browse(service.context, _ALL, browse.CHARGES, Wanted(**wanted), after, 2)

    newest_first = sorted((charge.id for charge in made), reverse=True)
    assert (await _ids(read))[0] == newest_first
    until = made[4].created_at
    assert sorted((await _ids(lambda after: read(after, final_at=until)))[0]) == sorted(each.id for each in made[:5])
    events = await browse.browse_events(service.context, _ALL, Wanted(event_types=("qrcode.approved",)))
    assert {event.name for event in events.items} == {"qrcode.approved"}
    assert len(events.items) == 2


@pytest.mark.parametrize("merged_max", [100, 1])
async def test_all_holders_are_listed_by_instant_and_status_whether_merged_or_by_their_ids(
    service: Service, caller: Caller, other: Caller, monkeypatch: pytest.MonkeyPatch, merged_max: int
) -> None:
    monkeypatch.setattr(browse, "HOLDERS_MERGED_MAX", merged_max)
    made = [*await _make(service, caller, 6), *await _make(service, other, 6, "2")]
    wanted = Wanted(statuses=("PENDING",), initial_at=made[2].created_at, final_at=made[8].created_at)

    async def read(after: str | None) -> Browsed[Charge]:
        return await browse.browse(service.context, _ALL, browse.CHARGES, wanted, after, 2)

    ids, _ = await _ids(read)
    paid = {made[number].id for number in (2, 5, 8, 11)}
    assert ids == [charge.id for charge in reversed(made[2:9]) if charge.id not in paid]

    async def read_events(after: str | None) -> Browsed[Any]:
        asked = Wanted(initial_at=made[6].created_at, final_at=made[7].created_at)
        return await browse.browse_events(service.context, _ALL, asked, after, 1)

    ids, _ = await _ids(read_events)
    assert len(ids) == 2


class SlowClock(FakeClock):
    """Everything takes a second."""

    def __init__(self) -> None:
        super().__init__(monotonic_s=0.0)

    def monotonic_s(self) -> float:
        self.advance(seconds=1)
        return super().monotonic_s()


async def test_looking_back_ends_in_time(service: Service, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await _make(service, caller, 12)
    monkeypatch.setattr(browse, "_FIRST_LOOK", 4)
    slow = structs.replace(service.context, clock=SlowClock())

    async def read(after: str | None) -> Browsed[Charge]:
        return await browse.browse(slow, _viewer(caller), browse.CHARGES, Wanted(amount_max_cents=200), after, 5)

    first = await read(None)
    assert (first.items, first.searched_to) == ([], made[8].created_at)
    assert (await _ids(read))[0] == [made[1].id, made[0].id]


async def test_deliveries_are_those_of_the_own_endpoints(service: Service, caller: Caller, other: Caller) -> None:
    own, others = [await _add_endpoint(service, who) for who in (caller, other)]
    await _make(service, caller, 3)
    await _make(service, other, 3, "2")
    await service.execute_as_owner(
        "update delivery set status = 'failed', due_at = null where id in (select min(id) from delivery group by endpoint_id)"
    )

    async def read(viewer: Viewer, **wanted: Any) -> list[browse.DeliveryLine]:
        return [*(await browse.browse_deliveries(service.context, viewer, Wanted(**wanted))).items]

    everything = await read(_viewer(caller))
    assert {line.endpoint.id for line in everything} == {own}
    assert {line.endpoint.id for line in await read(_ALL)} == {own, others}
    assert len(await read(_viewer(caller), statuses=("failed",))) == 1
    assert len(await read(_ALL, statuses=("failed",))) == 2
    approved = await read(_viewer(caller), event_types=("qrcode.approved", "qrcode.expired"))
    assert [line.event_name for line in approved] == ["qrcode.approved"]
    with pytest.raises(errors.NotFound):
        await read(_viewer(caller), endpoint_id=others)
    with pytest.raises(errors.NotFound):
        await browse.list_endpoint_lines(service.context, _viewer(caller), others)
    (line,) = await browse.list_endpoint_lines(service.context, _ALL, others)
    assert line.endpoint.id == others
    event = await browse.read_event(service.context, _viewer(caller), approved[0].delivery.event_id)
    assert [line.delivery.id for line in event.deliveries] == [approved[0].delivery.id]
    with pytest.raises(errors.NotFound):
        await browse.read_event(service.context, _viewer(other), event.event.id)
    states = await browse.list_endpoint_lines(service.context, _viewer(caller))
    assert [(line.state.what, line.state.pending_count) for line in states] == [("fine", len(everything) - 1)]
    await service.execute_as_owner("update webhook_endpoint set first_failure_at = created_at")
    failing = (await browse.list_endpoint_lines(service.context, _viewer(caller)))[0]
    assert (failing.state.what, failing.state.since) == ("failing", failing.endpoint.created_at)
    assert failing.state.next_at is not None


async def _add_endpoint(service: Service, caller: Caller) -> int:
    request = EndpointRequest(url="https://shop.example/hook", secret="a secret for tests", event_types=[*EVENT_NAMES])
    return (await endpoint_usecases.create_endpoint(service.context, caller, request)).id


@pytest.mark.parametrize(
    ("after", "page_size", "wanted"),
    [
        ("x", 50, {}), (None, 0, {}), (None, 201, {}), (None, 50, {"statuses": ("PAID",)}),
        (None, 50, {"counterparty": ""}), (None, 50, {"counterparty": "a\0"}),
    ],
)  # fmt: skip
async def test_what_makes_no_sense_is_refused(
    service: Service, caller: Caller, after: str | None, page_size: int, wanted: dict[str, Any]
) -> None:
    with pytest.raises(errors.BadRequest):
        await browse.browse(service.context, _viewer(caller), browse.CHARGES, Wanted(**wanted), after, page_size)


async def test_a_holder_finds_by_any_id_what_is_its_own_and_what_its_scopes_show(
    service: Service, caller: Caller, other: Caller
) -> None:
    own, others = (await _make(service, caller, 1))[0], (await _make(service, other, 1, "2"))[0]

    async def find(viewer: Viewer, text: str) -> list[tuple[str, str]]:
        return [(found.kind, found.id) for found in await search.find_anything(service.context, viewer, text)]

    assert await find(_viewer(caller), f" {own.txid} ") == [("charge", str(own.id))]
    assert await find(_viewer(caller), others.txid) == []
    assert await find(_ALL, others.txid) == [("charge", str(others.id))]
    assert await find(_viewer(caller, "transfer.read"), own.txid) == []
    event_id = (await browse.browse_events(service.context, _viewer(caller), Wanted())).items[0].id
    assert ("event", str(event_id)) in await find(_viewer(caller), f"evt_{event_id}")
    assert ("holder", str(other.holder_id)) in await find(_ALL, str(other.holder_id))
    assert "holder" not in {kind for kind, _ in await find(_viewer(caller), str(caller.holder_id))}
    for text in ("", "  ", "x" * 300, "a\0"):
        with pytest.raises(errors.BadRequest):
            await find(_ALL, text)
