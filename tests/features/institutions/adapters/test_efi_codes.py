"""Payments of QR codes at Efi: the code is sent as it is, and read at Efi first if its amount may have changed."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from features.faces.test_face_fault import Control
from features.institutions.adapters.test_efi_sends import NAME, TO_KEY, register
from pixconnect.features.institutions.adapters.opening import open_institution
from pixconnect.features.institutions.profiles.profile import read_profile
from pixconnect.features.institutions.rules.institution import CertainRefusal, NotSent, UnknownOutcome
from pixconnect.features.institutions.rules.rail_memory import SentPix
from pixconnect.features.institutions.rules.recording import TakenExchange
from pixconnect.kernel.rules import br_code, reject_code
from pixconnect.kernel.rules.location import OutsideCharge
from pixconnect.platform.adapters.system import SystemClock, SystemEntropy
from support.account_there import open_account_there
from support.faces import PAYEE, Bank

LOCATION, TXID = "pix.shop.example/v2/7d9f0335", "T" * 32
STATIC = structs.replace(TO_KEY, br_code=br_code.format_static_br_code(PAYEE, "Loja", "Recife", amount_cents=150))
DYNAMIC = structs.replace(TO_KEY, br_code=br_code.format_dynamic_br_code(LOCATION, "Loja", "Recife"), txid=TXID)


def ask(bank: Bank, **changes: Any) -> None:
    """The content of the code's location for readers there."""
    now = datetime.now(UTC)
    asked: dict[str, Any] = dict(txid=TXID, key=PAYEE, amount_cents=150, status="ATIVA", created_at=now)
    bank.service.locations.charges[LOCATION] = OutsideCharge(expires_at=now + timedelta(hours=1), **(asked | changes))


def test_what_is_certain_of_a_code_is_a_closed_list() -> None:
    known = read_profile("efi").account.code_refusals
    assert {one.reject_code for one in known} <= reject_code.REASONS.keys()
    assert {(one.status, one.name, *one.properties) for one in known} == {
        (400, "QrcodeOperacaoInvalida", "qrcode.pagador"), (400, "QrcodeOperacaoInvalida", "qrcode.pixCopiaECola"),
        (422, "QrcodeOperacaoInvalida", "qrcode.pixCopiaECola"),
    }  # fmt: skip


@pytest.mark.parametrize("amount", ["original", "final"])
@pytest.mark.parametrize("pix", [STATIC, DYNAMIC], ids=["static", "dynamic"])
async def test_a_code_is_paid_once_under_our_name(bank: Bank, tmp_path: Path, pix: Any, amount: str) -> None:
    await register(bank)
    ask(bank)
    async with open_account_there(bank, "efi", tmp_path, answers={"efi.code_amount": amount}) as there:
        sent = await there.institution.send(pix)
        assert isinstance(sent, SentPix), sent
        assert (sent.name, sent.amount_cents, sent.status) == (NAME, 150, "under_way")
        # A name can be used once, for codes and keys together.
        for again in (pix, TO_KEY, structs.replace(pix, amount_cents=151)):
            assert isinstance(await there.institution.send(again), UnknownOutcome | CertainRefusal | NotSent)
        read = await there.institution.read_sent(NAME)
        assert read is not None
        assert (read.end_to_end_id, read.payee) == (sent.end_to_end_id, PAYEE)
        assert await bank.count_sent() == 1


@pytest.mark.parametrize(
    "changes",
    [dict(amount_cents=1_000), dict(key="other@pix.example"), dict(txid="U" * 32), dict(status="CONCLUIDA")],
    ids=["amount", "key", "txid", "paid"],
)
async def test_a_dynamic_code_that_changed_is_not_paid(bank: Bank, tmp_path: Path, changes: dict[str, Any]) -> None:
    await register(bank)
    bank.service.rail.entries["other@pix.example"] = structs.replace(
        bank.service.rail.entries[PAYEE], key="other@pix.example"
    )
    ask(bank, **changes)
    async with open_account_there(bank, "efi", tmp_path) as there:
        refused = await there.institution.send(DYNAMIC)
        assert isinstance(refused, CertainRefusal), refused
        assert refused.reject_code == "BE17"
        assert await there.institution.read_sent(NAME) is None
    assert await bank.count_sent() == 0


@pytest.mark.parametrize("answer", ["invalid", "unprocessable"])
async def test_a_code_that_leads_nowhere_is_refused_for_certain(bank: Bank, tmp_path: Path, answer: str) -> None:
    await register(bank)
    nobodys = br_code.format_static_br_code("nobody@pix.example", "Loja", "Recife", amount_cents=150)
    async with open_account_there(bank, "efi", tmp_path, answers={"efi.refused_code": answer}) as there:
        refused = await there.institution.send(structs.replace(STATIC, br_code=nobodys))
        assert isinstance(refused, CertainRefusal), refused
        assert (refused.member, refused.reject_code) == ("qrcode.pixCopiaECola", "BE17")
        assert await there.institution.read_sent(NAME) is None


async def test_too_little_money_there_is_a_refusal_of_a_code(bank: Bank, tmp_path: Path) -> None:
    await register(bank)
    text = br_code.format_static_br_code(PAYEE, "Loja", "Recife", amount_cents=90_000_000)
    async with open_account_there(bank, "efi", tmp_path) as there:
        refused = await there.institution.send(structs.replace(STATIC, amount_cents=90_000_000, br_code=text))
        assert isinstance(refused, CertainRefusal), refused
        assert (refused.member, refused.reject_code) == ("qrcode.pagador", "AM04")


async def test_what_is_only_read_and_cannot_be_is_no_call(bank: Bank, tmp_path: Path) -> None:
    await register(bank)
    seen = list[TakenExchange]()
    async with open_account_there(bank, "efi", tmp_path, note=seen.append) as there:
        # Nothing is behind its location, as after an answer without content.
        assert isinstance(await there.institution.send(DYNAMIC), NotSent)
        ask(bank)
        # A process that was suspended for long pays nothing.
        assert isinstance(await there.institution.send(structs.replace(DYNAMIC, not_after_s=0.0)), NotSent)
    assert await bank.count_sent() == 0


@pytest.mark.parametrize(
    ("fault", "outcome", "is_there"),
    [
        ("no_answer", UnknownOutcome, 1),
        ("lost", UnknownOutcome, 0),
        ("html:after", UnknownOutcome, 1),
        ("too_many:1", NotSent, 0),
    ],
)
async def test_an_answer_that_says_nothing_of_a_code_is_never_a_refusal(
    bank: Bank, control: Control, tmp_path: Path, fault: str, outcome: type, is_there: int
) -> None:
    await register(bank)
    async with open_account_there(bank, "efi", tmp_path) as there:
        control.set(("face_write", fault))
        assert isinstance(await there.institution.send(STATIC), outcome)
        assert await bank.count_sent() == is_there


async def test_its_test_environment_pays_no_codes(bank: Bank, tmp_path: Path) -> None:
    async with open_account_there(bank, "efi", tmp_path) as there:
        assert "QRCODE" in there.institution.traits.sends
        account = structs.replace(
            there.account, environment="homologation", base_url="https://pix-h.api.efipay.com.br", authorities=""
        )
        theirs = open_institution(account, there.credential, SystemClock(), SystemEntropy())
        assert "QRCODE" not in theirs.traits.sends
        await theirs.close()
