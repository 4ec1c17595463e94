"""Operations beyond the central bank's API at the simulated banks: balances, statements, the file of a day."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pixconnect.features.institutions.adapters.sicoob import _read_rows  # pyright: ignore[reportPrivateUsage]
from pixconnect.features.institutions.rules.institution import (
    Institution,
    InstitutionItem,
    InstitutionUnavailable,
    ListedRefund,
)
from pixconnect.features.institutions.statement_files.efi_file import read_efi_file
from pixconnect.features.movements.service import receive_movement
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.settlement import end_orders
from pixconnect.kernel.rules.rail import Rejected, Settled
from pixconnect.kernel.rules.transfer import AccountTransferRequest
from pixconnect.platform.base.clock import SAO_PAULO
from pixconnect_faces.efi.account import write_day
from pixconnect_faces.inter import operations as inter_face
from support.account_there import open_account_there
from support.faces import ACCOUNT, Bank
from support.records import outside_party
from support.service import movement_report


def today() -> date:
    return datetime.now(UTC).astimezone(SAO_PAULO).date()


async def read_lines(institution: Institution, since: date, until: date) -> list[InstitutionItem]:
    lines = [item async for page in institution.list_statement(since, until) for item in page]
    assert all(isinstance(line, InstitutionItem) for line in lines), lines
    return [line for line in lines if isinstance(line, InstitutionItem)]


@pytest.mark.parametrize("name", ["efi", "inter", "sicoob", "woovi"])
async def test_the_balance_is_in_cents(bank: Bank, name: str, tmp_path: Path) -> None:
    number = "" if name == "woovi" else ACCOUNT
    async with open_account_there(bank, name, tmp_path, account=number) as there:
        assert there.institution.traits.has_balance
        before = await there.institution.read_balance()
        await bank.be_paid(None, 1999)
        assert await there.institution.read_balance() - before == 1999


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("inter", {"inter.return_line": "ESTORNO"}),
        ("inter", {"inter.return_line": "PIX"}),
        # It waits for the bank's rate limit.
        pytest.param(
            "sicoob", {"sicoob.account_answer": "resultado", "sicoob.transaction_id": "end_to_end_id"}, marks=pytest.mark.long
        ),
        pytest.param("sicoob", {"sicoob.transaction_id": "own"}, marks=pytest.mark.long),
    ],
)
async def test_each_line_is_stated_once(bank: Bank, name: str, answers: Mapping[str, str], tmp_path: Path) -> None:
    async with open_account_there(bank, name, tmp_path, answers=answers, account=ACCOUNT) as there:
        institution = there.institution
        assert institution.traits.has_statement
        paid = [await bank.be_paid(None, cents) for cents in (1999, 500, 500)]
        refund = await institution.refund(paid[0], "a1", 99)
        assert isinstance(refund, ListedRefund)
        settled = Settled(settled_at=bank.service.context.clock.now())
        await end_orders(bank.service.context, [(refund.return_id or "", settled)])
        lines = await read_lines(institution, today() - timedelta(days=1), today())
        # Both allow few of these calls a minute.
        again = await read_lines(institution, today() - timedelta(days=2), today())
        assert again == lines
        assert len({line.item_id for line in lines}) == len(lines)
        came_in = [line for line in lines if line.kind == "pix" and line.direction == "IN"]
        assert sorted(line.amount_cents for line in came_in) == [500, 500, 1999]
        (returned,) = [line for line in lines if line.direction == "OUT"]
        # If a return is described like any Pix, only its id can tell; joining it is tested elsewhere.
        is_told = answers != {"inter.return_line": "PIX"}
        assert (returned.kind, returned.amount_cents) == ("refund" if is_told else "pix", 99)
        if answers != {"sicoob.transaction_id": "own"}:
            assert {line.end_to_end_id for line in came_in} == set(paid)
        total = sum(line.amount_cents * (1 if line.direction == "IN" else -1) for line in lines)
        assert total == await institution.read_balance()


async def fetch_file(institution: Institution, day: date) -> bytes:
    assert institution.day_files is not None
    name = await institution.day_files.request_day_file(day)
    for _ in range(1200):
        found = await institution.day_files.fetch_day_file(name)
        if found is not None:
            return found
        await asyncio.sleep(0.05)
    raise AssertionError("the file is never written")


async def test_efi_writes_the_file_of_a_day_once_it_is_asked_to(bank: Bank, tmp_path: Path) -> None:
    async with open_account_there(bank, "efi", tmp_path) as there:
        files = there.institution.day_files
        assert files is not None
        assert (await fetch_file(there.institution, today() - timedelta(days=1))).startswith(b"CA;")
        with pytest.raises(InstitutionUnavailable):
            await files.request_day_file(today())
        with pytest.raises(InstitutionUnavailable):
            await files.fetch_day_file("0" * 21)


async def test_the_file_of_a_day_has_all_that_moved_between_its_balances(bank: Bank, tmp_path: Path) -> None:
    context = bank.service.context
    paid = [await bank.be_paid(None, cents) for cents in (1999, 500)]
    async with open_account_there(bank, "efi", tmp_path) as there:
        refund = await there.institution.refund(paid[0], "a1", 99)
    assert isinstance(refund, ListedRefund)
    await end_orders(context, [(refund.return_id or "", Settled(settled_at=context.clock.now()))])
    ends = (Settled(settled_at=context.clock.now()), Rejected(code="AC03", reason="closed"))
    for end in ends:
        request = AccountTransferRequest(amount_cents=700, credit_party=outside_party())
        sent = (await transfer_usecases.start_transfer(context, bank.service.caller, request)).transfer
        await end_orders(context, [(sent.end_to_end_id, end)])
    own = (await context.directory.read_account(bank.service.caller.holder_id)).party
    for number, (kind, about) in enumerate([("fee", paid[0]), ("fee", None), ("wire", None), ("by_hand", None)]):
        await receive_movement(context, movement_report(bank.service, f"M{number}", kind=kind, end_to_end_id=about, party=own))
    content = (await write_day(bank.services, bank.service.caller, today())).encode()
    file = read_efi_file(content)
    async with open_account_there(bank, "efi", tmp_path) as there:
        assert file.closing is not None
        assert file.closing.cents == await there.institution.read_balance()
    assert file.opening is not None
    assert file.opening.cents + sum(item.signed_cents for item in file.items) == file.closing.cents
    assert len({item.item_id for item in file.items}) == len(file.items)
    kinds = Counter(content.decode().splitlines()[number].partition(";")[0] for number in range(len(file.items) + 4))
    assert kinds == Counter(CA=1, SD0=1, SD1=1, T=1, PR=2, PDE=1, PEB=2, EPE=1, TPR=1, TTFE=1, TFR=1, TFE=2)
    (returned,) = [item for item in file.items if item.kind == "refund"]
    assert returned.names == (refund.return_id, paid[0])


async def test_what_the_standard_alone_has_not_is_said(bank: Bank, tmp_path: Path) -> None:
    async with open_account_there(bank, "bb", tmp_path) as there:
        traits = there.institution.traits
        assert not any((traits.has_balance, traits.has_statement))
        assert there.institution.day_files is None
        with pytest.raises(InstitutionUnavailable):
            await there.institution.read_balance()
        with pytest.raises(InstitutionUnavailable):
            await read_lines(there.institution, today(), today())


@pytest.mark.long
async def test_days_are_asked_for_singly_at_inter(bank: Bank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await bank.be_paid(None, 500)
    async with open_account_there(bank, "inter", tmp_path, account=ACCOUNT) as there:
        before = await read_lines(there.institution, today() - timedelta(days=2), today())
        asked = list[tuple[date, date]]()
        answered = inter_face._read_lines

        async def refuse_several(*given: Any) -> Any:
            first, last = given[-1]
            asked.append((first, last))
            if first < last:
                raise inter_face.NamedRefusal("LINES", "peça menos dias")
            return await answered(*given)

        monkeypatch.setattr(inter_face, "_read_lines", refuse_several)
        assert await read_lines(there.institution, today() - timedelta(days=2), today()) == before
    span = [today() - timedelta(days=number) for number in (2, 1, 0)]
    assert asked == [(span[0], span[-1]), *((day, day) for day in span)]


def test_what_sicoob_adds_to_a_line_later_changes_nothing_of_it() -> None:
    row = dict(tipo="CREDITO", valor="300.00", data="2026-07-02T00:00:00", descricao="TED")
    line, more = _read_rows([row]), _read_rows([{**row, "cpfCnpj": "1"}])
    assert (more, getattr(line[0], "settled_at", ...)) == (line, None)


async def test_sicoob_tells_no_statement_of_an_account_whose_number_nobody_says(bank: Bank, tmp_path: Path) -> None:
    async with open_account_there(bank, "sicoob", tmp_path) as there:
        with pytest.raises(InstitutionUnavailable, match="numeroContaCorrente"):
            await read_lines(there.institution, today(), today())
        assert (there.institution.traits.has_balance, there.institution.traits.has_statement) == (True, False)
