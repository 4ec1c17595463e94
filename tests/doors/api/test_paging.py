"""Cursors: their content, which are refused, and the link with the next one."""

from datetime import UTC, datetime
from typing import Any

import pytest

from pixconnect.kernel.rules.listing import Cursor, Page, Span, write_cursor

CHARGES = "/v1/connect/charge/list"
NOT_OURS = "after: must be a cursor that this list answered to you in a Link header, under the same filters"
LAST = Cursor(created_at=datetime(2026, 7, 1, 12, 0, 0, 123456, UTC), id=9, position=10, total_count=25)
LISTED = b'["charges",7,null,{"status":"PENDING"}]'
CURSOR = "AQAGVYtuVLJAAAAAAAAAAAkAAAAAAAAACgAAAAAAAAAZ"  # the beginning of version 1, without the check digits


def next_of(answer: Any) -> str:
    return answer.headers["link"].partition("after=")[2].partition(">")[0]


def listing(use_cases: Any, name: str = "list_charges", following: Cursor | None = LAST) -> None:
    use_cases.answers[name] = lambda *_: Page(items=[], total_count=25, next=following)


async def test_the_next_page_is_linked_with_the_other_parameters_kept(api: Any, use_cases: Any) -> None:
    listing(use_cases)
    answer = await api.get(f"{CHARGES}?page=1&status=PENDING&initial_date=2026-07-01T00:00:00+00:00&page_size=10")
    kept = "status=PENDING&initial_date=2026-07-01T00:00:00%2B00:00&page_size=10"
    assert answer.headers["link"] == f'<http://127.0.0.1:8080{CHARGES}?{kept}&after={next_of(answer)}>; rel="next"'
    address = answer.headers["link"][1:].partition(">")[0].removeprefix("http://127.0.0.1:8080")
    again = await api.get(address)
    assert again.status == 200
    assert again.headers["link"].count("after=") == 1
    _, (*_, span) = use_cases.asked[-1]
    assert span == Span(page_size=10, initial_at=datetime(2026, 7, 1, tzinfo=UTC), after=LAST)


async def test_the_last_page_has_no_link(api: Any, use_cases: Any) -> None:
    listing(use_cases, following=None)
    assert "link" not in (await api.get(CHARGES)).headers


@pytest.mark.parametrize(
    ("page_size", "following", "page", "total_pages", "has_next"),
    [
        (10, LAST, 2, 3, True), (10, None, 2, 3, False), (5, LAST, 3, 5, True), (4, None, 4, 7, False),
        (100, None, 2, 1, False)
    ],
)  # fmt: skip
async def test_pagination_by_cursor_counts_pages_from_where_the_walk_began(
    api: Any, use_cases: Any, page_size: int, following: Cursor | None, page: int, total_pages: int, has_next: bool
) -> None:
    listing(use_cases)
    after = next_of(await api.get(CHARGES))
    listing(use_cases, following=following)
    answer = await api.get(f"{CHARGES}?page_size={page_size}&after={after}")
    assert list(answer.body["pagination"].items()) == [
        ("page", page), ("page_size", page_size), ("total_items", 25), ("total_pages", total_pages),
        ("has_next", has_next), ("has_prev", True),
    ]  # fmt: skip
    assert ("link" in answer.headers) == has_next


async def test_a_cursor_is_good_for_its_list_and_filters_only(api: Any, use_cases: Any) -> None:
    for name in ("list_charges", "list_transfers", "list_refunds", "list_events", "list_deliveries", "list_transactions"):
        listing(use_cases, name)
    after = next_of(await api.get(f"{CHARGES}?final_date=2026-07-02T00:00:00Z"))
    same = ["final_date=2026-07-02T00:00:00Z", "final_date=2026-07-01T21:00:00-03:00&status=PENDING&page=1&page_size=7"]
    for query in same:
        assert (await api.get(f"{CHARGES}?{query}&after={after}")).status == 200
    others = [
        f"{CHARGES}?",
        f"{CHARGES}?final_date=2026-07-02T00:00:00.000001Z",
        f"{CHARGES}?initial_date=2026-07-02T00:00:00Z",
        f"{CHARGES}?final_date=2026-07-02T00:00:00Z&status=EXPIRED",
        "/v1/connect/transfer/list?final_date=2026-07-02T00:00:00Z",
        "/v1/webhook/events?final_date=2026-07-02T00:00:00Z",
    ]
    for target in others:
        answer = await api.get(f"{target}&after={after}")
        assert (answer.status, answer.code, answer.message) == (400, "BAD_REQUEST", NOT_OURS)
    deliveries = "/v1/webhook/endpoints/{}/deliveries"
    after = next_of(await api.get(deliveries.format(1)))
    assert (await api.get(f"{deliveries.format(1)}?after={after}")).status == 200
    assert (await api.get(f"{deliveries.format(2)}?after={after}")).message == NOT_OURS
    after = next_of(await api.get("/v1/connect/ledger/list"))
    assert (await api.get(f"/v1/connect/transactions/list?after={after}")).status == 200  # two paths to one list


async def test_a_cursor_of_another_holder_is_refused(api: Any, use_cases: Any) -> None:
    listing(use_cases)
    of_another = write_cursor(LAST, LISTED.replace(b"7", b"8"))
    assert (await api.get(f"{CHARGES}?after={write_cursor(LAST, LISTED)}")).status == 200
    assert (await api.get(f"{CHARGES}?after={of_another}")).message == NOT_OURS


async def test_a_cursor_does_not_stand_beside_a_later_page(api: Any, use_cases: Any) -> None:
    listing(use_cases)
    after = next_of(await api.get(CHARGES))
    answer = await api.get(f"{CHARGES}?page=2&after={after}")
    assert (answer.status, answer.code) == (400, "BAD_REQUEST")
    assert answer.message == "after: must not be given together with a page greater than 1"
    assert (await api.get(f"{CHARGES}?after={after}&after={after}")).message == "after: stands twice in the query"
    assert (await api.get(f"{CHARGES}?after=")).message == NOT_OURS
