"""Transfers at Inter: the requests, which answers are certain, and how a Pix is found whose answer was lost."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pixconnect.features.identity.service import access as access_usecases
from pixconnect.features.institutions.adapters.inter import decode_pix_of_code, find_marked, mark, write_key, write_send
from pixconnect.features.institutions.adapters.wire import Malformed
from pixconnect.features.institutions.profiles.profile import read_profile
from pixconnect.features.institutions.rules.institution import CertainRefusal, InstitutionUnavailable, NotSent, SendAnswer
from pixconnect.features.institutions.rules.rail_memory import OutgoingPix, SentPix
from pixconnect.kernel.rules import reject_code
from pixconnect.kernel.rules.access import SCOPES
from support.account_there import NAME, SAYS_NOTHING, TO_KEY, AccountThere, open_account_there
from support.faces import ACCOUNT, PAYEE, Bank, Control
from support.operators import as_operator
from support.records import outside_party

CODE = "0b1d3c5e-8e0a-4c2d-9b4f-6a8c0e2d4f35"


def test_the_list_is_of_the_statuses_that_sources_call_refusals() -> None:
    known = read_profile("inter").account.send_refusals
    assert {(one.status, one.name, one.reject_code) for one in known} == {
        (400, "", "CH16"), (422, "", "DS04"), (403, "", "DS0G"),
    }  # fmt: skip
    assert {one.reject_code for one in known} <= reject_code.REASONS.keys()


def test_the_amount_is_a_number_of_these_digits_and_the_description_ends_with_our_mark() -> None:
    long = structs.replace(TO_KEY, amount_cents=999_999_999_999, payer_message="x" * 140)
    body: dict[str, Any] = write_send(long) or {}
    assert bytes(body["valor"]) == b"9999999999.99"
    assert (len(body["descricao"]), body["descricao"].rpartition(" ")[2]) == (140, mark(NAME))
    assert (write_send(structs.replace(TO_KEY, payer_message=None)) or {})["descricao"] == mark(NAME)


@pytest.mark.parametrize("is_by_key", [True, False])
async def test_one_name_is_one_pix_and_its_code_tells_of_it(bank: Bank, tmp_path: Path, *, is_by_key: bool) -> None:
    async with _open(bank, tmp_path) as there:
        pix = TO_KEY if is_by_key else structs.replace(TO_KEY, payee=outside_party(), is_by_key=False)
        sent = await there.institution.send(pix)
        assert isinstance(sent, SentPix), sent
        assert (sent.name, sent.amount_cents, sent.status, sent.end_to_end_id) == (NAME, 150, "under_way", None)
        assert await _send_again(there, pix) == sent
        read = await there.institution.read_sent(NAME, sent.code)
        assert read is not None
        assert (read.code, read.amount_cents, read.status) == (sent.code, 150, "under_way")
        assert read.payee == (PAYEE if is_by_key else None)
        assert await bank.count_sent() == 1
        await bank.settle_sent()
        settled = await there.institution.read_sent(NAME, sent.code)
        assert settled is not None
        assert (settled.status, settled.end_to_end_id) == ("settled", read.end_to_end_id)
        assert settled.settled_at is not None
        # The statement has it too, in case its code is lost.
        since = datetime.now(UTC) - timedelta(minutes=5)
        assert await there.institution.read_sent(NAME, None, since) == settled
        assert await there.institution.read_sent("a" * 32, None, since) is None


async def test_what_a_person_has_to_approve_is_under_way_until_it_has_ended(bank: Bank, tmp_path: Path) -> None:
    async with _open(bank, tmp_path, answers={"inter.approval": "person"}) as there:
        sent = await there.institution.send(TO_KEY)
        assert isinstance(sent, SentPix)
        read = await there.institution.read_sent(NAME, sent.code)
        assert read is not None
        assert (sent.status, read.status) == ("under_way", "under_way")


@pytest.mark.parametrize(
    ("answers", "code"), [({}, "CH16"), ({"inter.unknown_key": "unprocessable"}, "DS04")], ids=["400", "422"]
)
async def test_a_refusal_of_the_list_is_certain(bank: Bank, tmp_path: Path, answers: dict[str, str], code: str) -> None:
    nobodys = structs.replace(TO_KEY, payee=structs.replace(TO_KEY.payee, key="nobody@pix.example"))
    async with _open(bank, tmp_path, answers=answers) as there:
        refused = await there.institution.send(nobodys)
        assert isinstance(refused, CertainRefusal), refused
        assert refused.reject_code == code
        assert await there.institution.read_sent(NAME) is None
        assert await bank.count_sent() == 0


@pytest.mark.parametrize(("fault", "outcome", "is_there"), SAYS_NOTHING)
async def test_an_answer_that_says_nothing_is_never_a_refusal(
    bank: Bank, control: Control, tmp_path: Path, fault: str, outcome: type, *, is_there: bool
) -> None:
    async with _open(bank, tmp_path) as there:
        control.set(("face_write", fault))
        assert isinstance(await there.institution.send(TO_KEY), outcome)
        assert await bank.count_sent() == (1 if is_there else 0)


async def test_a_credential_that_may_not_send_sends_nothing_and_reads_all_the_same(bank: Bank, tmp_path: Path) -> None:
    may = [scope for scope in SCOPES if scope != "transfer.write"]
    operator = as_operator(bank.service.context)
    only = await access_usecases.create_client(operator, bank.service.caller.holder_id, "only receives", may)
    async with _open(structs.replace(bank, issued=only), tmp_path) as there:
        for _ in range(3):
            assert isinstance(await there.institution.send(TO_KEY), NotSent | CertainRefusal)
        assert await there.institution.read_balance() > 0
        assert await bank.count_sent() == 0


async def test_a_code_that_inter_told_and_does_not_know_any_more_is_no_absence(bank: Bank, tmp_path: Path) -> None:
    async with _open(bank, tmp_path) as there:
        with pytest.raises(InstitutionUnavailable):
            await there.institution.read_sent(NAME, CODE)


async def test_what_is_called_again_too_late_does_not_leave(bank: Bank, tmp_path: Path) -> None:
    async with _open(bank, tmp_path) as there:
        late = await there.institution.send(structs.replace(TO_KEY, not_after_s=0.0))
        assert isinstance(late, NotSent), late
        assert await bank.count_sent() == 0


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("PAGO", "settled"), ("PROCESSADO", "under_way"), ("ENVIADO", "under_way"), ("DEBITADO", "under_way"),
        ("AGUARDANDO_APROVACAO", "under_way"), ("AGENDADO", "under_way"), ("A_WORD_OF_TOMORROW", "under_way"),
        ("REPROVADO", "refused"), ("EXPIRADO", "refused"), ("CANCELADO_SEM_SALDO", "refused"),
    ],
)  # fmt: skip
def test_only_words_that_end_a_pix_end_it(word: str, status: str) -> None:
    assert decode_pix_of_code(NAME, CODE, _answer(status=word)).status == status


@pytest.mark.parametrize(
    "changes",
    [
        dict(endToEnd=None), dict(endToEnd="E1"), dict(valor=1.005), dict(valor="much"),
        dict(valor="9E999999"), dict(valor="1_50"), dict(valor="\uff11.50"), dict(status=None),
        dict(codigoSolicitacao=write_key(NAME)), dict(dataHoraMovimento="soon"),
    ],
)  # fmt: skip
def test_what_cannot_be_relied_on_is_no_end(changes: dict[str, object]) -> None:
    with pytest.raises(Malformed):
        decode_pix_of_code(NAME, CODE, _answer(**changes))


def test_a_mark_counts_where_it_ends_the_description_of_a_debit() -> None:
    def line(text: str, operation: str = "D") -> dict[str, object]:
        return dict(tipoOperacao=operation, detalhes=dict(codigoSolicitacao=CODE, descricaoPix=text))

    assert find_marked(line(f"cake {mark(NAME)}"), NAME) == CODE
    assert find_marked(line(f"{mark(NAME)} {'b' * 20}"), NAME) is None
    assert find_marked(line(mark(NAME), "C"), NAME) is None
    assert find_marked("no line", NAME) is None


def _answer(**changes: object) -> dict[str, object]:
    told = dict(
        codigoSolicitacao=CODE, status="PAGO", valor=1.5, endToEnd=f"E{'1' * 31}", chave=PAYEE,
        dataHoraMovimento="2026-07-01T12:00:00.000",
    )  # fmt: skip
    return {"transacaoPix": told | changes, "historico": []}


def _open(bank: Bank, folder: Path, **changes: Any) -> Any:
    return open_account_there(bank, "inter", folder, account=ACCOUNT, **changes)


async def _send_again(there: AccountThere, pix: OutgoingPix) -> SendAnswer:
    """When the limit of one call a second allows it."""
    answer = await there.institution.send(pix)
    while isinstance(answer, NotSent) and answer.retry_after is not None:
        await asyncio.sleep(answer.retry_after.total_seconds())
        answer = await there.institution.send(pix)
    return answer
