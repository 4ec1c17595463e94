"""Transfers at Efi: the requests, and which answers are certain. Only those of the profile's closed list are."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from features.faces.test_face_fault import Control
from pixconnect.features.institutions.profiles.profile import NAMES, read_profile
from pixconnect.features.institutions.rules.institution import (
    CertainRefusal,
    InstitutionUnavailable,
    NotSent,
    UnknownOutcome,
)
from pixconnect.features.institutions.rules.rail_memory import SentPix
from pixconnect.features.pix_api.service import key_webhook as key_webhook_usecases
from pixconnect.kernel.rules import reject_code
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY
from pixconnect.kernel.rules.tax_id import mask_cpf
from support import account_there
from support.account_there import SAYS_NOTHING, AccountThere, open_account_there
from support.faces import KEY, PAYEE, Bank
from support.records import outside_party

NAME = "a" * 32
TO_KEY = structs.replace(account_there.TO_KEY, name=NAME, payer_key=KEY)


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
        (
            dict(payee=structs.replace(TO_KEY.payee, key="nobody@pix.example")),
            "chave_favorecido_nao_encontrada",
            "AC03",
        ),
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
