"""Transfers at Woovi: the requests, which texts are certain, and that a payment is approved once at most."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pixconnect.features.institutions.adapters.message import Content
from pixconnect.features.institutions.adapters.wire import Malformed
from pixconnect.features.institutions.adapters.woovi_sender import WooviSender, decode_cents_sent, has_more, write_cents_send
from pixconnect.features.institutions.rules import institution as institutions
from pixconnect.features.institutions.rules.rail_memory import OutgoingPix, SentPix
from pixconnect.kernel.flows.ledger import read_balance
from pixconnect.kernel.rules import reject_code
from pixconnect.kernel.rules.br_code import format_static_br_code
from support.account_there import NAME, SAYS_NOTHING, TO_KEY, open_account_there
from support.faces import PAYEE, Bank, Control
from support.records import outside_party
from support.service import FakeClock

E2E = f"E{'1' * 31}"
BY_CODE = structs.replace(TO_KEY, br_code=format_static_br_code(PAYEE, "Loja", "Recife", amount_cents=150))
TO_ACCOUNT = structs.replace(TO_KEY, payee=outside_party(), is_by_key=False)
KNOWN_BEFORE = "Já existe um pagamento com o correlationID fornecido"
NO_BALANCE = "Você não possui saldo o suficiente para realizar esse pagamento"


def test_what_is_asked_for_is_as_the_document_has_it() -> None:
    assert write_cents_send(TO_KEY, approves=True) == dict(
        type="PIX_KEY", value=150, destinationAlias=PAYEE, destinationAliasType="EMAIL", correlationID=NAME,
        comment="for the cake", autoApprove=True,
    )  # fmt: skip
    # The amount is sent with the code, so that no more is paid than was accepted.
    assert write_cents_send(BY_CODE, approves=False) == dict(
        type="QR_CODE", value=150, qrCode=BY_CODE.br_code, correlationID=NAME, comment="for the cake", autoApprove=False
    )
    random = structs.replace(TO_KEY.payee, key="c4249323-b4ca-43f2-8139-8232aab09b93", key_type="EVP")
    assert (write_cents_send(structs.replace(TO_KEY, payee=random), approves=False) or {})["destinationAliasType"] == "RANDOM"
    payee = TO_ACCOUNT.payee
    body = write_cents_send(TO_ACCOUNT, approves=True) or {}
    assert (body["type"], body["psp"], "comment" in body) == ("MANUAL", {"id": payee.ispb}, False)
    assert body["account"] == dict(account=payee.account_number, branch=payee.branch, accountType="CACC")
    assert body["holder"] == dict(name=payee.name, taxID=dict(type="BR:CPF", taxID=payee.tax_id))


@pytest.mark.parametrize("answer", ["payment_only", "whole"])
@pytest.mark.parametrize("approve", ["auto", "two_steps"])
@pytest.mark.parametrize("pix", [TO_KEY, BY_CODE, TO_ACCOUNT], ids=["key", "code", "account"])
async def test_a_name_is_one_payment(bank: Bank, tmp_path: Path, pix: OutgoingPix, approve: str, answer: str) -> None:
    answers = {"woovi.auto_approve_answer": answer}
    async with open_account_there(bank, "woovi", tmp_path, answers=answers, options={"approve": approve}) as there:
        sent = await there.institution.send(pix)
        assert isinstance(sent, SentPix), sent
        assert (sent.name, sent.code, sent.amount_cents, sent.status) == (NAME, NAME, 150, "under_way")
        read = await there.institution.read_sent(NAME)
        assert read is not None
        assert (read.amount_cents, read.status, read.payee) == (150, "under_way", sent.payee or read.payee)
        for amount_cents in (150, 151):
            again = await there.institution.send(structs.replace(pix, amount_cents=amount_cents))
            assert isinstance(again, institutions.UnknownOutcome), again
            assert not again.is_refusal, "nothing of it is a refusal of the first"
        assert await bank.count_sent() == 1
        await bank.settle_sent()
        settled = await there.institution.read_sent(NAME)
        assert settled is not None
        assert (settled.status, settled.end_to_end_id is None) == ("settled", False)
        assert settled.settled_at is not None


@pytest.mark.parametrize("taken", ["object", "text"])
@pytest.mark.parametrize("sent", ["object", "text"])
async def test_an_institution_is_named_properly_or_not_paid(bank: Bank, tmp_path: Path, taken: str, sent: str) -> None:
    async with open_account_there(bank, "woovi", tmp_path, answers={"woovi.psp": taken}, options={"psp": sent}) as there:
        answer = await there.institution.send(TO_ACCOUNT)
        assert isinstance(answer, SentPix if taken == sent else institutions.UnknownOutcome), answer
        assert isinstance(answer, SentPix) or answer.is_refusal
        assert await bank.count_sent() == (1 if taken == sent else 0)


@pytest.mark.parametrize("answer", ["invalid", "absent"])
async def test_what_nobody_there_knows_is_not_there_yet(bank: Bank, tmp_path: Path, answer: str) -> None:
    async with open_account_there(bank, "woovi", tmp_path, answers={"woovi.unknown_payment": answer}) as there:
        assert await there.institution.read_sent(NAME) is None
        # An existing payment is never taken for a missing one.
        with pytest.raises(institutions.InstitutionUnavailable):
            await there.institution.read_sent(NAME, NAME, datetime.now(UTC))


@pytest.mark.parametrize("approve", ["auto", "two_steps"])
async def test_too_little_money_waits_for_the_approver(bank: Bank, tmp_path: Path, approve: str) -> None:
    balance = await read_balance(bank.service.context, bank.service.caller)
    pix = structs.replace(TO_KEY, amount_cents=balance.available_cents + 1)
    async with open_account_there(bank, "woovi", tmp_path, options={"approve": approve}) as there:
        answer = await there.institution.send(pix)
        assert isinstance(answer, SentPix | institutions.UnknownOutcome), answer
        assert not (isinstance(answer, institutions.UnknownOutcome) and answer.is_refusal)
        read = await there.institution.read_sent(NAME)
        assert read is not None
        assert (read.status, read.code) == ("under_way", NAME)
        assert await bank.count_sent() == 0


async def test_a_code_without_an_amount_is_paid_at_ours(bank: Bank, tmp_path: Path) -> None:
    async with open_account_there(bank, "woovi", tmp_path) as there:
        refused = await there.institution.send(structs.replace(BY_CODE, amount_cents=151))
        assert isinstance(refused, institutions.UnknownOutcome), refused
        assert refused.is_refusal
        open_code = format_static_br_code(PAYEE, "Loja", "Recife")
        sent = await there.institution.send(structs.replace(BY_CODE, name="b" * 32, br_code=open_code))
        assert isinstance(sent, SentPix), sent
        assert (sent.amount_cents, await bank.count_sent()) == (150, 1)


async def test_a_refusal_by_a_text_of_no_list_is_told_as_one(bank: Bank, tmp_path: Path) -> None:
    nobodys = structs.replace(TO_KEY, payee=structs.replace(TO_KEY.payee, key="nobody@pix.example"))
    async with open_account_there(bank, "woovi", tmp_path) as there:
        refused = await there.institution.send(nobodys)
        assert isinstance(refused, institutions.UnknownOutcome), refused
        assert refused.is_refusal
        assert refused.reason == "the institution answered 400: A chave Pix não foi encontrada."
        assert await there.institution.read_sent(NAME) is None


@pytest.mark.parametrize(("fault", "outcome", "is_there"), SAYS_NOTHING)
async def test_an_answer_that_says_nothing_is_no_refusal(
    bank: Bank, control: Control, tmp_path: Path, fault: str, outcome: type, *, is_there: bool
) -> None:
    async with open_account_there(bank, "woovi", tmp_path) as there:
        control.set(("face_write", fault))
        answer = await there.institution.send(TO_KEY)
        assert isinstance(answer, outcome)
        assert not (isinstance(answer, institutions.UnknownOutcome) and answer.is_refusal)
        assert await bank.count_sent() == (1 if is_there else 0)


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("CONFIRMED", "settled"), ("CREATED", "under_way"), ("APPROVED", "under_way"), ("PROCESSING", "under_way"),
        ("A_WORD_OF_TOMORROW", "under_way"), ("FAILED", "refused"), ("REJECTED", "refused"), ("DENIED", "refused"),
    ],
)  # fmt: skip
def test_only_words_that_end_a_payment_end_it(word: str, status: str) -> None:
    assert decode_cents_sent(payment(status=word), NAME).status == status
    assert decode_cents_sent(payment(status=word), NAME, is_question=False).status == "under_way"


@pytest.mark.parametrize(
    "told",
    [
        dict(transaction=None), dict(transaction=dict(endToEndId="transaction-end-to-end-id")), dict(value=1.5),
        dict(value=None), dict(status=None), dict(correlationID="another"), dict(transaction=dict(endToEndId=E2E, time="soon")),
    ],
)  # fmt: skip
def test_what_cannot_be_relied_on_is_no_end(told: dict[str, Any]) -> None:
    moved = dict(transaction=told.pop("transaction")) if "transaction" in told else {}
    with pytest.raises(Malformed):
        decode_cents_sent({**payment(**told), **moved}, NAME)


@pytest.mark.parametrize(
    ("told", "code"),
    [
        (dict(transaction=dict(providerRejectedReason="AM12 - the parts do not add up")), "AM12"),
        (dict(transaction=dict(providerErrorCode="AC03", providerRejectedReason="no such account")), "AC03"),
        (dict(error=dict(code="PIX_KEY_INFO_NOT_FOUND", description="no such key"), transaction=None), "AC03"),
        (dict(error=dict(code="PIX_OUT_NOT_AUTHORIZED")), None),
        (dict(transaction=dict(providerRejectedReason="ABCD")), None),
    ],
)
def test_a_failure_has_the_schemes_reason_where_one_is_told(told: dict[str, Any], code: str | None) -> None:
    refused = decode_cents_sent({**payment(status="FAILED"), **told}, NAME)
    assert (refused.status, refused.reject_code) == ("refused", code)
    assert (refused.reason or "").startswith("FAILED")
    assert code is None or code in reject_code.REASONS


@pytest.mark.parametrize(
    ("told", "payee"),
    [
        (dict(destinationAlias=PAYEE, destinationAliasType="EMAIL"), PAYEE),
        (dict(destinationAlias="529.982.247-25", destinationAliasType="CPF"), "52998224725"),
        (dict(destinationAlias="11999998888", destinationAliasType="PHONE"), None),
        (dict(destinationAlias="jo***@pix.example"), None),
        (dict(type="MANUAL", psp="54811417", account=dict(branch="0001", account="000981")), "54811417/0001/000981"),
        (dict(type="MANUAL", psp=dict(id="54811417"), account=dict(branch="1", account="98-1")), "54811417/1/981"),
        (dict(type="MANUAL", psp=dict(id="077"), account=dict(branch="1", account="981")), None),
        ({}, None),
    ],
)
def test_whom_it_goes_to_is_told_as_far_as_it_is_whole(told: dict[str, Any], payee: str | None) -> None:
    assert decode_cents_sent(payment(status="CREATED", **told), NAME).payee == payee


def test_a_page_that_is_full_is_not_the_last_unless_it_says_so() -> None:
    assert has_more(dict(pageInfo=dict(hasNextPage=True)), 100, 100, 100)
    assert not has_more(dict(pageInfo=dict(hasNextPage=True)), 0, 100, 100)
    assert not has_more(dict(pageInfo=dict(totalCount=100)), 100, 100, 100)
    assert has_more({}, 100, 100, 100)
    assert not has_more({}, 99, 99, 100)


class Answers:
    """A stand-in for an account's calls: each path's answers in turn, the last of them repeatedly."""

    def __init__(self, **answers: list[Any]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def change(self, call: Any) -> Any:
        return self._next("approve" if call.path.endswith("approve") else "create")

    async def read(self, route: str, path: str, query: Any = None, *, body_max: int = 0) -> Any:
        return self._next("list" if query else "question")

    def describe(self, content: Content) -> str:
        return content.text

    def refuse(self, content: Content) -> institutions.InstitutionUnavailable:
        return institutions.InstitutionUnavailable(content.text)

    def _next(self, what: str) -> Any:
        self.asked.append(what)
        left = self.answers[what]
        return left.pop(0) if len(left) > 1 else left[0]


def content(value: object, status: int = 200) -> Content:
    return Content(status=status, value=value, wait_s=None)


CREATED = content({"payment": dict(correlationID=NAME, value=150, status="CREATED")})
LOST = institutions.UnknownOutcome(reason="lost")
TURNED_AWAY = institutions.NotSent(reason="429", retry_after=timedelta(milliseconds=1))


@pytest.mark.parametrize(
    ("create", "approve", "asked", "is_there"),
    [
        ([CREATED], [content({})], ["create", "approve"], True),
        ([CREATED], [LOST], ["create", "approve"], True),
        ([CREATED], [content({"error": NO_BALANCE}, 400)], ["create", "approve"], True),
        ([CREATED], [TURNED_AWAY, content({})], ["create", "approve", "approve"], True),
        ([CREATED], [TURNED_AWAY], ["create", "approve", "approve", "approve"], False),
        ([LOST], [], ["create"], False),
        ([content({"error": KNOWN_BEFORE}, 400)], [], ["create"], False),
        ([content({"payment": dict(correlationID=NAME, value=151, status="CREATED")})], [], ["create"], False),
        ([content({"payment": dict(correlationID=NAME, value=150, status="APPROVED")})], [], ["create"], True),
        (
            [content({"payment": dict(correlationID=NAME, value=150, status="CREATED", destinationAlias="o@x.example")})],
            [],
            ["create"],
            False,
        ),
    ],
)  # fmt: skip
async def test_the_step_that_moves_money_is_called_once_and_only_after_a_new_payment(
    create: list[Any], approve: list[Any], asked: list[str], *, is_there: bool
) -> None:
    calls = Answers(create=[*create], approve=[*approve])
    answer = await _send(calls, has_two_steps=True)
    assert calls.asked == asked
    assert isinstance(answer, SentPix if is_there else institutions.UnknownOutcome)
    assert not (isinstance(answer, institutions.UnknownOutcome) and answer.is_refusal)


@pytest.mark.parametrize(
    ("status", "body", "is_refusal"),
    [
        (400, {"error": "A chave Pix não foi encontrada."}, True),
        (403, {"error": "Application does not have required scope: PAYMENT_POST"}, True),
        (400, {"errors": [{"message": "destinationAlias inválida"}], "data": None}, True),
        (400, {"errors": [{"message": KNOWN_BEFORE}], "data": None}, False),
        (400, {"errors": "none"}, False),
        (400, {"error": KNOWN_BEFORE}, False),
        (400, {"error": NO_BALANCE}, False),
        (400, {"error": "You do not have enough balance to make this payment"}, False),
        (400, {}, False),
        (404, {"error": "not found"}, False),
        (405, {"error": "method"}, False),
    ],
)
async def test_a_text_refuses_only_what_it_is_about(status: int, body: dict[str, Any], *, is_refusal: bool) -> None:
    answer = await _send(Answers(create=[content(body, status)]))
    assert isinstance(answer, institutions.UnknownOutcome)
    assert answer.is_refusal is is_refusal


async def test_an_account_of_a_type_that_woovi_does_not_pay_to_is_refused_before_anything_is_sent() -> None:
    calls = Answers()
    payee = structs.replace(TO_ACCOUNT.payee, account_type="UNKNOWN")  # type: ignore[arg-type]  of tomorrow
    answer = await _send(calls, structs.replace(TO_ACCOUNT, payee=payee))
    assert isinstance(answer, institutions.CertainRefusal)
    assert calls.asked == []


@pytest.mark.parametrize(
    ("listed", "age", "is_gone"),
    [
        (content({"payments": [], "pageInfo": dict(hasNextPage=False)}), timedelta(hours=2), True),
        (content({"payments": [dict(payment=dict(correlationID="b"))]}), timedelta(hours=2), True),
        (content({"payments": [dict(payment=dict(correlationID=NAME))]}), timedelta(hours=2), False),
        (content({"payments": [dict(payment={})]}), timedelta(hours=2), False),
        (content({"error": "Application does not have required scope"}, 403), timedelta(hours=2), False),
        (content({"payments": [{"payment": {"correlationID": "b"}}], "pageInfo": dict(hasNextPage=True)}),
         timedelta(hours=2), False),
        (content({"payments": []}), timedelta(minutes=59), False),
    ],
)  # fmt: skip
async def test_a_removal_is_refused_once_both_queries_agree(listed: Content, age: timedelta, *, is_gone: bool) -> None:
    clock = FakeClock()
    sender: Any = WooviSender(
        _as_calls(Answers(question=[content({"error": "não encontrado"}, 400)], list=[listed])), clock, has_two_steps=False
    )  # fmt: skip
    assert await sender.read_sent(NAME, None, None) is None
    since = clock.real_now() - age
    if is_gone:
        gone = await sender.read_sent(NAME, NAME, since)
        assert (gone.status, gone.amount_cents) == ("refused", None)
    else:
        with pytest.raises(institutions.InstitutionUnavailable):
            await sender.read_sent(NAME, NAME, since)


@pytest.mark.parametrize(("has_two_steps", "waits_for"), [(False, "funds"), (True, "approval")])
async def test_what_is_created_for_long_waits_for_a_person(waits_for: str, *, has_two_steps: bool) -> None:
    clock = FakeClock()
    created = content(payment(status="CREATED"))
    sender = WooviSender(_as_calls(Answers(question=[created, created])), clock, has_two_steps=has_two_steps)
    read = [await sender.read_sent(NAME, NAME, clock.real_now() - timedelta(seconds=age)) for age in (59, 60)]
    assert [one and (one.status, one.waits_for) for one in read] == [("under_way", None), ("under_way", waits_for)]


def payment(**told: object) -> dict[str, Any]:
    members = dict(correlationID=NAME, value=150, status="CONFIRMED") | told
    return dict(payment=members, transaction=dict(endToEndId=E2E, time="2026-07-01T12:00:00.000Z"))


def _as_calls(answers: Answers) -> Any:
    return answers


async def _send(calls: Answers, pix: OutgoingPix = TO_KEY, *, has_two_steps: bool = False) -> institutions.SendAnswer:
    return await WooviSender(_as_calls(calls), FakeClock(), has_two_steps=has_two_steps).send(pix)
