"""Transfers, payments of QR codes and returns at Efi: the requests, and which answers are certain.

Only those of the profile's closed lists are. A code is sent as it is, and read at Efi first if its amount may have changed. The
list of returned Pix is read strictly: an unreadable item is kept, and does not hide the others.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pixconnect.features.institutions.adapters.efi import decode_sent, read_returns
from pixconnect.features.institutions.opener import open_institution
from pixconnect.features.institutions.profiles.profile import NAMES, read_profile
from pixconnect.features.institutions.rules.institution import CertainRefusal, InstitutionUnavailable, NotSent, UnknownOutcome
from pixconnect.features.institutions.rules.rail_memory import SentPix, SentReturn
from pixconnect.features.institutions.rules.recording import TakenExchange
from pixconnect.features.institutions.rules.sweep import MalformedItem
from pixconnect.features.pix_api.service import key_webhook as key_webhook_usecases
from pixconnect.kernel.rules import br_code, reject_code
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY
from pixconnect.kernel.rules.location import OutsideCharge
from pixconnect.kernel.rules.tax_id import mask_cpf
from pixconnect.platform.adapters.system import SystemClock, SystemEntropy
from support import account_there
from support.account_there import SAYS_NOTHING, AccountThere, open_account_there
from support.faces import KEY, PAYEE, Bank, Control
from support.records import outside_party

NAME = "a" * 32
TO_KEY = structs.replace(account_there.TO_KEY, name=NAME, payer_key=KEY)
LOCATION, TXID = "pix.shop.example/v2/7d9f0335", "T" * 32
STATIC = structs.replace(TO_KEY, br_code=br_code.format_static_br_code(PAYEE, "Loja", "Recife", amount_cents=150))
DYNAMIC = structs.replace(TO_KEY, br_code=br_code.format_dynamic_br_code(LOCATION, "Loja", "Recife"), txid=TXID)
E2E = "E09089356202607011500APIff82f2e5"
RTR = "D99999004202607011600abcdefghijk"
SENT = {
    "endToEndId": E2E,
    "idEnvio": "a" * 32,
    "valor": "20.00",
    "status": "REALIZADO",
    "horario": {"solicitacao": "2026-07-01T15:00:00.000Z", "liquidacao": "2026-07-01T15:00:01.000Z"},
    "favorecido": {"chave": "joana@pix.example"},
}
RETURNED = {"rtrId": RTR, "valor": "7.00", "horario": "2026-07-01T16:00:00.000Z"}
READ = SentReturn(end_to_end_id=E2E, return_id=RTR, amount_cents=700, settled_at=datetime(2026, 7, 1, 16, tzinfo=UTC))


async def register(bank: Bank) -> None:
    """The paying key needs a webhook there."""
    await key_webhook_usecases.set_webhook(bank.service.context, bank.service.caller, KEY, bank.hook)


def test_who_sends_has_a_list_and_each_reason_is_the_schemes() -> None:
    lists = {name: read_profile(name).account.send_refusals for name in NAMES}
    assert [name for name, known in lists.items() if known] == ["efi", "inter", "sicoob"]
    assert {one.reject_code for one in lists["efi"]} <= reject_code.REASONS.keys()
    assert {(one.status, one.name) for one in lists["efi"]} == {
        (400, "documento_bloqueado"), (400, "chave_invalida"), (400, "chave_nao_pertence_ao_documento"),
        (400, "valor_invalido"), (400, "json_invalido"), (404, "chave_favorecido_nao_encontrada"),
        (422, "pagamento_negado"), (403, "insufficient_scope"),
    }  # fmt: skip


@pytest.mark.parametrize("is_by_key", [True, False])
async def test_what_is_sent_is_under_way_and_known_by_our_name(bank: Bank, tmp_path: Path, *, is_by_key: bool) -> None:
    await register(bank)
    async with open_account_there(bank, "efi", tmp_path) as there:
        pix = TO_KEY if is_by_key else structs.replace(TO_KEY, payee=outside_party(), is_by_key=False)
        sent = await there.institution.send(pix)
        assert isinstance(sent, SentPix), sent
        assert (sent.name, sent.amount_cents, sent.status) == (NAME, 150, "under_way")
        read = await there.institution.read_sent(NAME)
        assert read is not None
        assert (read.end_to_end_id, read.amount_cents) == (sent.end_to_end_id, 150)
        # The name was used: nothing more is sent, and the answer proves nothing.
        for amount_cents in (150, 151):
            again = await there.institution.send(structs.replace(pix, amount_cents=amount_cents))
            assert isinstance(again, UnknownOutcome)
        assert await bank.count_sent() == 1


@pytest.mark.parametrize(
    ("changes", "name", "code"),
    [
        (dict(payee=structs.replace(TO_KEY.payee, key="nobody@pix.example")), "chave_favorecido_nao_encontrada", "AC03"),
        (dict(payee=structs.replace(TO_KEY.payee, tax_id="52998224725")), "chave_nao_pertence_ao_documento", "BE01"),
        (dict(payer_key="other@pix.example"), "chave_invalida", "CH16"),
        (dict(payee=structs.replace(TO_KEY.payee, key="no key at all")), "valor_invalido", "CH16"),
    ],
)
async def test_a_refusal_of_the_list_is_certain_and_leaves_nothing(
    bank: Bank, tmp_path: Path, changes: dict[str, Any], name: str, code: str
) -> None:
    await register(bank)
    async with open_account_there(bank, "efi", tmp_path) as there:
        refused = await there.institution.send(structs.replace(TO_KEY, **changes))
        assert isinstance(refused, CertainRefusal), refused
        assert (refused.code, refused.reject_code) == (name, code)
        assert await there.institution.read_sent(NAME) is None


@pytest.mark.parametrize("answer", ["no", "yes"])
async def test_whose_the_key_is_is_told_as_far_as_it_is(bank: Bank, tmp_path: Path, answer: str) -> None:
    await register(bank)
    payee = bank.service.rail.entries[PAYEE].party
    async with open_account_there(bank, "efi", tmp_path, answers={"efi.payee_named": answer}) as there:
        await there.institution.send(TO_KEY)
        read = await _read(there)
        assert read is not None
        told = None if read.paid is None else (read.paid.name, read.paid.tax_id, read.paid.branch)
        assert told == ((payee.name, mask_cpf(payee.tax_id), UNKNOWN_PARTY.branch) if answer == "yes" else None)
        account = structs.replace(TO_KEY, name="b" * 32, payee=outside_party(), is_by_key=False)
        await there.institution.send(account)
        paid = await there.institution.read_sent("b" * 32)
        assert paid is not None
        assert paid.paid is not None
        assert (paid.paid.account_number, paid.paid.name) == (account.payee.account_number, account.payee.name)


async def test_what_cannot_be_said_to_efi_is_not_sent(bank: Bank, tmp_path: Path) -> None:
    async with open_account_there(bank, "efi", tmp_path) as there:
        assert isinstance(await there.institution.send(structs.replace(TO_KEY, payer_key=None)), NotSent)
        salary = structs.replace(outside_party(), account_type="SALARY")
        refused = await there.institution.send(structs.replace(TO_KEY, payee=salary, is_by_key=False))
        assert isinstance(refused, CertainRefusal)
        assert refused.reject_code == "AC14"


@pytest.mark.parametrize(("fault", "outcome", "is_there"), SAYS_NOTHING)
async def test_an_answer_that_says_nothing_is_never_a_refusal(
    bank: Bank, control: Control, tmp_path: Path, fault: str, outcome: type, *, is_there: bool
) -> None:
    await register(bank)
    async with open_account_there(bank, "efi", tmp_path) as there:
        control.set(("face_write", fault))
        assert isinstance(await there.institution.send(TO_KEY), outcome)
        assert (await _read(there) is not None) is is_there


async def test_a_question_without_an_answer_says_nothing(bank: Bank, control: Control, tmp_path: Path) -> None:
    async with open_account_there(bank, "efi", tmp_path) as there:
        control.set(("face_read", "html:after"), ("face_read", "html:after"), ("face_read", "html:after"))
        with pytest.raises(InstitutionUnavailable):
            await there.institution.read_sent(NAME)


async def _read(there: AccountThere) -> SentPix | None:
    return await there.institution.read_sent(NAME)


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
    bank.service.rail.entries["other@pix.example"] = structs.replace(bank.service.rail.entries[PAYEE], key="other@pix.example")
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


@pytest.mark.parametrize(
    ("row", "good", "malformed"),
    [
        (SENT, [], 0),
        (SENT | {"devolucoes": [RETURNED]}, [READ], 0),
        (SENT | {"devolucoes": [RETURNED | {"valor": "7,00"}, RETURNED]}, [READ], 1),
        (SENT | {"devolucoes": [RETURNED | {"rtrId": None}]}, [], 1),
        (SENT | {"devolucoes": [RETURNED | {"horario": "yesterday"}]}, [], 1),
        (SENT | {"devolucoes": "two"}, [], 1),
        ({"devolucoes": [RETURNED]}, [], 1),
        (None, [], 0),
    ],
)
def test_each_return_is_read_or_kept(row: object, good: list[SentReturn], malformed: int) -> None:
    found = read_returns(row)
    assert [each for each in found if isinstance(each, SentReturn)] == good
    assert sum(isinstance(each, MalformedItem) for each in found) == malformed


def test_a_return_that_cannot_be_read_hides_no_outcome_of_its_pix() -> None:
    sent = decode_sent(SENT | {"devolucoes": [{"rtrId": 1}, RETURNED]})
    assert (sent.status, list(sent.returns)) == ("settled", [READ])
