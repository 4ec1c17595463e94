"""Which answers to a refund are certain: only those of the profile's closed list, each at its simulated bank."""

from pathlib import Path

import pytest

from pixconnect.features.institutions.profiles.profile import NAMES, read_profile
from pixconnect.features.institutions.rules.institution import CertainRefusal, Institution, ListedRefund, UnknownOutcome
from support.account_there import open_account_there
from support.faces import Bank

NOBODYS = "E" + "9" * 31
# Santander's simulated bank takes the grant in the body, where the real institution takes it in the query.
_STANDARD = [name for name in NAMES if name not in ("efi", "woovi", "santander")]


async def test_the_lists_are_those_that_institutions_document() -> None:
    known = {
        name: [(one.status, one.name, tuple(one.properties)) for one in read_profile(name).account.refund_refusals]
        for name in NAMES
    }
    standard = [(400, "PixDevolucaoInvalida", ("devolucao.valor",))]
    assert known == dict.fromkeys(NAMES, standard) | dict(efi=[(400, "pix_nao_encontrado", ())], woovi=[])


@pytest.mark.parametrize("name", _STANDARD)
async def test_more_than_came_in_is_refused_for_certain_a_used_id_not(bank: Bank, name: str, tmp_path: Path) -> None:
    async with open_account_there(bank, name, tmp_path) as there:
        e2eid = await bank.be_paid(None, 1000)
        refused = await there.institution.refund(e2eid, "a" * 32, 1001)
        assert isinstance(refused, CertainRefusal), refused
        assert (refused.code, refused.member) == ("PixDevolucaoInvalida", "devolucao.valor")
        assert await there.institution.read_refund(e2eid, "a" * 32) is None
        await _check_that_others_are_unknown(there.institution, e2eid)


async def test_efi_refuses_for_certain_only_what_it_never_received(bank: Bank, tmp_path: Path) -> None:
    async with open_account_there(bank, "efi", tmp_path) as there:
        e2eid = await bank.be_paid(None, 1000)
        refused = await there.institution.refund(NOBODYS, "a" * 32, 1)
        assert isinstance(refused, CertainRefusal), refused
        assert refused.code == "pix_nao_encontrado"
        # No source documents its answer to a refund above the amount.
        assert isinstance(await there.institution.refund(e2eid, "a" * 32, 1001), UnknownOutcome)
        await _check_that_others_are_unknown(there.institution, e2eid)


async def test_of_woovi_no_refusal_is_certain(bank: Bank, tmp_path: Path) -> None:
    async with open_account_there(bank, "woovi", tmp_path) as there:
        e2eid = await bank.be_paid(None, 1000)
        for original, cents in ((NOBODYS, 1), (e2eid, 1001)):
            assert isinstance(await there.institution.refund(original, "a" * 32, cents), UnknownOutcome)
        await _check_that_others_are_unknown(there.institution, e2eid)


async def _check_that_others_are_unknown(institution: Institution, e2eid: str) -> None:
    """A used id proves nothing about the request."""
    assert isinstance(await institution.refund(e2eid, "b" * 32, 400), ListedRefund)
    assert isinstance(await institution.refund(e2eid, "b" * 32, 399), UnknownOutcome)
