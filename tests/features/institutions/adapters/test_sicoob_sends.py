"""Transfers in two steps at Sicoob: the requests, which answers are certain, and that nothing is confirmed twice."""

from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from msgspec import structs

from pixconnect.features.identity.service import access as access_usecases
from pixconnect.features.institutions.adapters.sicoob import decode_minted, decode_sent_pix, write_confirmation
from pixconnect.features.institutions.adapters.wire import Malformed
from pixconnect.features.institutions.profiles.profile import read_profile
from pixconnect.features.institutions.rules.institution import CertainRefusal, NotSent, UnknownOutcome
from pixconnect.features.institutions.rules.pending_call import FirstStep, NamedPix, is_another_owner
from pixconnect.features.institutions.rules.rail_memory import SentPix
from pixconnect.kernel.rules import reject_code
from pixconnect.kernel.rules.access import SCOPES
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY
from support.account_there import NAME, SAYS_NOTHING, TO_KEY, AccountThere, open_account_there
from support.faces import ACCOUNT, PAYEE, Bank, Control
from support.operators import as_operator

CODE = "E0203823220260701150012345678901"


def test_the_list_has_what_the_document_calls_a_refusal_of_the_second_step() -> None:
    known = read_profile("sicoob").account.send_refusals
    assert {(one.status, one.name, one.reject_code) for one in known} == {(400, "RequisicaoInvalida", "CH16")}
    assert {one.reject_code for one in known} <= reject_code.REASONS.keys()


@pytest.mark.parametrize(
    ("cents", "text"), [(1, "0,01"), (199, "1,99"), (19_900, "199,00"), (999_999_999_999, "9999999999,99")]
)
def test_the_amount_has_a_comma_and_nothing_schedules_or_repeats(cents: int, text: str) -> None:
    body = write_confirmation(structs.replace(TO_KEY, amount_cents=cents, code=CODE))
    assert body == dict(endToEndId=CODE, meioIniciacao="CHAVE", valor=text, descricao="for the cake")


async def test_the_first_step_tells_whose_the_key_is_and_the_second_pays(bank: Bank, tmp_path: Path) -> None:
    async with _open(bank, tmp_path) as there:
        minted = await _mint(there)
        assert (minted.owner_name, len(minted.owner_tax_id or "")) != (None, 0)
        assert await there.institution.read_sent(NAME, minted.code) is None
        assert await bank.count_sent() == 0
        sent = await there.institution.send(structs.replace(TO_KEY, code=minted.code))
        assert isinstance(sent, SentPix), sent
        assert (sent.code, sent.end_to_end_id, sent.amount_cents) == (minted.code, minted.code, 150)
        assert sent.status == "under_way"
        await bank.settle_sent()
        settled = await there.institution.read_sent(NAME, minted.code)
        assert settled is not None
        assert (settled.status, settled.amount_cents, settled.settled_at is None) == ("settled", 150, False)
        assert await there.institution.read_sent(NAME, None) is None, "nothing there knows our name"


@pytest.mark.parametrize("answers", [{}, {"sicoob.unconfirmed": "state"}], ids=["404", "NÃO_REALIZADO"])
async def test_what_was_not_confirmed_is_not_there(bank: Bank, tmp_path: Path, answers: dict[str, str]) -> None:
    async with _open(bank, tmp_path, answers=answers) as there:
        assert await there.institution.read_sent(NAME, (await _mint(there)).code) is None


@pytest.mark.parametrize("answers", [{}, {"sicoob.unknown_key": "not_found"}], ids=["400", "404"])
async def test_an_unknown_key_is_refused_by_the_first_step(bank: Bank, tmp_path: Path, answers: dict[str, str]) -> None:
    nobodys = structs.replace(TO_KEY, payee=structs.replace(TO_KEY.payee, key="nobody@pix.example"))
    async with _open(bank, tmp_path, answers=answers) as there:
        assert isinstance(there.institution, FirstStep)
        refused = await there.institution.mint(nobodys)
        assert isinstance(refused, CertainRefusal), refused
        assert refused.reject_code == "CH16"


async def test_a_refusal_of_the_list_is_certain_and_leaves_nothing(bank: Bank, tmp_path: Path) -> None:
    async with _open(bank, tmp_path) as there:
        minted = await _mint(there)
        too_much = structs.replace(TO_KEY, amount_cents=99_999_999, code=minted.code)
        refused = await there.institution.send(too_much)
        assert isinstance(refused, CertainRefusal), refused
        assert refused.reject_code == "CH16"
        assert await there.institution.read_sent(NAME, minted.code) is None


@pytest.mark.parametrize(("fault", "outcome", "is_there"), SAYS_NOTHING)
async def test_an_answer_of_the_second_step_that_says_nothing_is_never_a_refusal(
    bank: Bank, control: Control, tmp_path: Path, fault: str, outcome: type, *, is_there: bool
) -> None:
    async with _open(bank, tmp_path) as there:
        minted = await _mint(there)
        control.set(("face_write", fault))
        assert isinstance(await there.institution.send(structs.replace(TO_KEY, code=minted.code)), outcome)
        assert await bank.count_sent() == (1 if is_there else 0)


@pytest.mark.parametrize("fault", ["no_answer", "lost", "html:after", "too_many:1"])
async def test_an_unanswered_first_step_is_no_call(bank: Bank, control: Control, tmp_path: Path, fault: str) -> None:
    async with _open(bank, tmp_path) as there:
        control.set(("face_write", fault))
        assert isinstance(there.institution, FirstStep)
        assert isinstance(await there.institution.mint(TO_KEY), NotSent)
        assert await bank.count_sent() == 0


async def test_a_token_that_ended_between_steps_confirms_once(bank: Bank, control: Control, tmp_path: Path) -> None:
    async with _open(bank, tmp_path) as there:
        minted = await _mint(there)
        control.set(("face_write", "token_ended"))
        paid = structs.replace(TO_KEY, code=minted.code)
        assert isinstance(await there.institution.send(paid), UnknownOutcome)
        # The question needs a new token.
        assert await there.institution.read_sent(NAME, minted.code) is None
        assert await bank.count_sent() == 0


async def test_a_credential_that_may_not_send_sends_nothing_and_reads_all_the_same(bank: Bank, tmp_path: Path) -> None:
    may = [scope for scope in SCOPES if scope != "transfer.write"]
    operator = as_operator(bank.service.context)
    only = await access_usecases.create_client(operator, bank.service.caller.holder_id, "only receives", may)
    async with _open(structs.replace(bank, issued=only), tmp_path) as there:
        first: object = there.institution
        assert isinstance(first, FirstStep)
        assert isinstance(await first.mint(TO_KEY), NotSent)
        assert await there.institution.read_balance() > 0
        assert await bank.count_sent() == 0


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("FINALIZADO", "settled"), ("REJEITADO", "refused"), ("EM_PROCESSAMENTO", "under_way"), (None, "under_way"),
        ("A_WORD_OF_TOMORROW", "under_way"),
    ],
)  # fmt: skip
def test_only_words_that_end_a_payment_end_it(word: str | None, status: str) -> None:
    sent = decode_sent_pix(NAME, CODE, _answer(estado=word))
    assert sent is not None
    assert sent.status == status


@pytest.mark.parametrize("word", ["NÃO_REALIZADO", "NAO_REALIZADO", normalize("NFD", "NÃO_REALIZADO"), "não realizado"])
def test_what_is_not_done_however_it_is_written_ends_nothing(word: str) -> None:
    assert decode_sent_pix(NAME, CODE, _answer(estado=word, valor=0)) is None


@pytest.mark.parametrize("value", [1.5, "1.50", "1,50", "1,5"])
def test_an_amount_is_read_as_a_number_and_as_a_text(value: object) -> None:
    sent = decode_sent_pix(NAME, CODE, _answer(valor=value))
    assert sent is not None
    assert sent.amount_cents == 150


@pytest.mark.parametrize(
    ("told", "code"), [("AC03 - Conta inexistente", "AC03"), ("A conta (AC07) foi encerrada", "AC07"), ("Recusado", None)]
)
def test_a_rejection_has_the_schemes_reason_where_one_is_told(told: str, code: str | None) -> None:
    sent = decode_sent_pix(NAME, CODE, _answer(estado="REJEITADO", detalheRejeicao=told))
    assert sent is not None
    assert (sent.reason, sent.reject_code) == (told, code)


def test_what_is_paid_is_paid_though_its_instant_cannot_be_read() -> None:
    sent = decode_sent_pix(NAME, CODE, _answer(horario="soon"))
    assert sent is not None
    assert (sent.status, sent.settled_at) == ("settled", None)


@pytest.mark.parametrize(
    "changes", [dict(endToEndId=f"E{'2' * 31}"), dict(endToEndId=None), dict(valor=1.005), dict(valor="much")]
)
def test_what_cannot_be_relied_on_is_no_end(changes: dict[str, object]) -> None:
    with pytest.raises(Malformed):
        decode_sent_pix(NAME, CODE, _answer(**changes))


def test_the_owner_of_a_key_is_told_with_or_without_signs() -> None:
    told = dict(endToEndId=CODE, chave=PAYEE, proprietario=dict(nome="Joana", identificador="123.456.789-09"))
    assert decode_minted(told, PAYEE) == NamedPix(code=CODE, owner_tax_id="12345678909", owner_name="Joana")
    assert decode_minted(dict(endToEndId=CODE, chave=PAYEE.upper()), PAYEE).owner_tax_id is None


def test_a_cpf_as_key_is_its_owners_own_and_no_other_owner_is_taken_on_trust() -> None:
    by_cpf = structs.replace(UNKNOWN_PARTY, key="12345678909", tax_id="12345678909")
    named = structs.replace(UNKNOWN_PARTY, key=PAYEE, tax_id="12345678909")
    told = (None, "12345678909", "98765432100")
    assert [is_another_owner(by_cpf, owner) for owner in told] == [False, False, True]
    assert [is_another_owner(named, owner) for owner in told] == [True, False, True]


@pytest.mark.parametrize("changes", [dict(chave="other@pix.example"), dict(endToEndId="string" * 5), dict(endToEndId=None)])
def test_a_first_step_about_another_key_or_without_a_name_is_none(changes: dict[str, object]) -> None:
    with pytest.raises(Malformed):
        decode_minted(dict(endToEndId=CODE, chave=PAYEE) | changes, PAYEE)


def _answer(**changes: object) -> dict[str, object]:
    told = dict(endToEndId=CODE, estado="FINALIZADO", valor=1.5, horario="2026-07-01T12:00:00.000Z")
    return {name: value for name, value in (told | changes).items() if value is not None}


async def _mint(there: AccountThere) -> NamedPix:
    assert isinstance(there.institution, FirstStep)
    minted = await there.institution.mint(TO_KEY)
    assert isinstance(minted, NamedPix), minted
    return minted


def _open(bank: Bank, folder: Path, **changes: Any) -> Any:
    return open_account_there(bank, "sicoob", folder, account=ACCOUNT, **changes)
