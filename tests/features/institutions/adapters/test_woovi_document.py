"""Woovi's answers in the form of its API document, where its documentation and our simulated bank differ."""

import asyncio
import re
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from features.institutions.adapters.test_lying_counterpart import Liar, answer, liar, list_all, open_there  # noqa: F401  a fixture
from pixconnect.features.institutions.adapters.woovi_records import list_ids, read_cents_pix
from pixconnect.features.institutions.rules.institution import InstitutionUnavailable, ReceivedPix

E2E = "E18236120202012032010s0133872GZ{number}"
URL = "https://loja.example/bell"
EVENT = "OPENPIX:TRANSACTION_RECEIVED"


def transaction(number: int = 1, **told: object) -> dict[str, Any]:
    """As in the document's example."""
    return {
        "value": 100, "time": "2021-03-03T12:33:00.536Z", "transactionID": "transactionID", "type": "PAYMENT",
        "endToEndId": E2E.format(number=number), "infoPagador": "payer info 0",
        "payer": {"name": "Dan", "taxID": {"taxID": "31324227036", "type": "BR:CPF"}},
    } | told  # fmt: skip


@pytest.mark.parametrize(
    "page", [{"hasNextPage": False, "hasPreviousPage": False, "skip": 0, "limit": 100}, {"totalCount": 1}, {}]
)
async def test_a_list_ends_whatever_it_says_of_its_length(liar: Liar, page: dict[str, Any]) -> None:  # noqa: F811
    there = open_there(liar, "woovi")
    liar.said = answer({"pageInfo": page, "transactions": [transaction()]})
    (pix,) = await list_all(there)
    assert isinstance(pix, ReceivedPix)
    assert (pix.amount_cents, pix.end_to_end_id, len(liar.asked)) == (100, E2E.format(number=1), 1)
    await there.close()


async def test_a_list_that_says_that_it_goes_on_is_read_on(liar: Liar) -> None:  # noqa: F811
    there = open_there(liar, "woovi")

    async def show(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        skip = int(re.findall(r"skip=(\d+)", liar.asked[-1])[0])
        rows = [transaction(1 + skip // 100)] if skip < 300 else []
        writer.write(answer({"pageInfo": {"hasNextPage": True}, "transactions": rows}))

    liar.said = show
    assert len(await list_all(there)) == 3
    await there.close()


async def test_a_list_without_an_end_is_none(liar: Liar) -> None:  # noqa: F811
    there = open_there(liar, "woovi")
    liar.said = answer({"pageInfo": {"hasNextPage": True}, "transactions": [transaction()]})
    until = datetime.now(UTC)
    with pytest.raises(InstitutionUnavailable):
        async for _ in there.list_received(until - timedelta(milliseconds=1), until):
            pass
    await there.close()


def test_a_payment_of_which_no_status_is_told_has_settled_and_one_with_another_word_has_not() -> None:
    assert read_cents_pix(transaction()) is not None
    assert read_cents_pix(transaction(type=None, status="PAYMENT")) is not None
    assert read_cents_pix(transaction(status="IN_PROCESSING")) is None
    assert read_cents_pix(transaction(type="WITHDRAW")) is None


@pytest.mark.parametrize("path", ["/api/v1/account/", "/api/v1/account"])
async def test_the_balance_is_read_where_the_list_of_accounts_is(liar: Liar, path: str) -> None:  # noqa: F811
    there = open_there(liar, "woovi")
    listed = {"accounts": [{"accountId": "6290ccfd42831958a405debc", "isDefault": True, "balance": {"total": 129430}}]}

    async def show(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        has_it = liar.asked[-1].split()[1] == path
        writer.write(answer(listed) if has_it else answer({"error": "not found"}, 404))

    liar.said = show
    assert await there.read_balance() == 129430
    await there.close()


def test_a_webhook_is_removed_by_a_name_in_base_64() -> None:
    known = dict(id="V2ViaG9vazo2MDNlYmUxZWRlYjkzNWU4NmQyMmNmMTg=", event=EVENT, url=URL)
    assert list_ids([known, {**known, "id": "../charge"}, {**known, "url": "https://x.example"}], EVENT, URL) == [known["id"]]


@pytest.mark.parametrize(("status", "asked_count"), [(404, 2), (400, 1), (500, 1)])
async def test_a_webhook_that_is_gone_leaves_no_other(liar: Liar, status: int, asked_count: int) -> None:  # noqa: F811
    there = open_there(liar, "woovi")
    listed = [dict(id=name, event=EVENT, url=URL) for name in ("Z29uZQ==", "a2VwdA==")]

    async def show(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_list, is_gone = liar.asked[-1].startswith("GET"), "Z29uZQ" in liar.asked[-1]
        writer.write(answer({"webhooks": listed}) if is_list else answer({"error": "no"}, status if is_gone else 200))

    liar.said = show
    # The answer to the removal of one that is gone is the wanted state; any other is unknown or refused.
    with nullcontext() if status == 404 else pytest.raises(InstitutionUnavailable):
        await there.remove_webhook("", URL)
    assert sum(line.startswith("DELETE") for line in liar.asked) == asked_count
    await there.close()
