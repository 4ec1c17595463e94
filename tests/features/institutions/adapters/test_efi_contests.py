"""Contests at the simulated Efi, as the account's adapter reads and answers them, and lists that it does not believe."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from features.institutions.adapters.test_lying_counterpart import Liar, answer, liar, open_there  # noqa: F401  one is a fixture
from pixconnect.features.contests.service import defence as defence_usecases
from pixconnect.features.institutions.adapters.efi_contests import decode_contest
from pixconnect.features.institutions.adapters.wire import Malformed
from pixconnect.features.institutions.rules.institution import Institution, InstitutionUnavailable
from pixconnect.features.institutions.rules.sweep import CONTESTS_SPAN, Contests, ListedContest, MalformedItem
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.rules.block_report import Defence, DefenceRefused, DefenceTaken, DefenceUnknown
from support.account_there import open_account_there
from support.faces import ACCOUNT, Bank
from support.records import OUTSIDE_ISPB
from support.service import credit_report, decided, infraction_report

E2E = f"E{OUTSIDE_ISPB}202607011500aaaaaaaaaaa"
ROW: dict[str, Any] = {
    "idInfracao": "f7a1", "endToEndId": E2E, "protocolo": "1", "dataTransacao": "2026-07-01T15:00:00.000Z",
    "valor": "10.00", "status": "ABERTA", "razao": "FRAUDE", "tipoSituacao": "GOLPE", "comentario": "não fui eu",
    "dadosAnalise": {"abertura": "2026-07-02T15:00:00.000Z", "prazoFinalizacao": "2026-07-09T15:00:00.000Z"},
    "criadoEm": "2026-07-02T15:00:00.000Z", "atualizadoEm": "2026-07-02T15:00:01.000Z",
}  # fmt: skip


def contests_of(institution: Institution) -> Contests:
    assert institution.contests is not None
    return institution.contests


async def list_all(contests: Contests, bank: Bank | None = None) -> list[ListedContest | MalformedItem]:
    now = decode_contest(ROW).opened_at if bank is None else bank.service.clock.now()
    pages = contests.list_contests(now - CONTESTS_SPAN, now + timedelta(minutes=1))
    return [item async for page in pages for item in page]


async def contest(bank: Bank, name: str = "I1", **changes: Any) -> Any:
    paid = await bank.be_paid(None)
    party = credit_report(bank.service, account_number=ACCOUNT).credit_party
    report = infraction_report(bank.service, paid, name, party=party, **changes)
    assert await take_reports(bank.service.context, [report]) == 1
    return report


@pytest.mark.parametrize("interval", ["opened", "paid"])
async def test_a_list_is_read_at_whichever_instant_it_is_cut(bank: Bank, tmp_path: Path, interval: str) -> None:
    reports = [await contest(bank), await contest(bank, "I2", situation="coercion", words=None)]
    answers = {"efi.contest_interval": interval}
    async with open_account_there(bank, "efi", tmp_path, answers=answers) as there:
        contests = contests_of(there.institution)
        found = [item for item in await list_all(contests, bank) if isinstance(item, ListedContest)]
        assert {(one.name, one.end_to_end_id, one.amount_cents, one.status) for one in found} == {
            (report.name, report.end_to_end_id, 1000, "open") for report in reports
        }
        assert {(one.situation, one.words) for one in found} == {("scam", "I never got the shoes"), ("coercion", None)}
        assert await take_reports(bank.service.context, [decided(bank.service, reports[0], 1000)]) == 1
        assert await take_reports(bank.service.context, [decided(bank.service, reports[1])]) == 1
        ended = {one.name: one.status for one in await list_all(contests, bank) if isinstance(one, ListedContest)}
        assert ended == {"I1": "accepted", "I2": "rejected"}


async def test_an_answer_is_taken_once_and_its_repeat_is_known_for_ours(bank: Bank, tmp_path: Path) -> None:
    await contest(bank)
    async with open_account_there(bank, "efi", tmp_path) as there:
        contests = contests_of(there.institution)
        ours = Defence(name="I1", text="delivered on the 20th")
        assert await contests.defend(ours) == DefenceTaken()
        assert await contests.defend(ours) == DefenceTaken(), "the first answer was lost"
        assert isinstance(await contests.defend(Defence(name="I1", text="another")), DefenceRefused)
        assert isinstance(await contests.defend(Defence(name="I9", text="x")), DefenceRefused)
        (listed,) = [one for one in await list_all(contests, bank) if isinstance(one, ListedContest)]
        assert listed.defence == ours.text
    (row,) = await bank.service.fetch("select id, defence, defended_at from infraction")
    shown = await defence_usecases.read_infraction(bank.service.context, bank.service.caller, row["id"])
    assert (row["defence"], shown.infraction.defence_state) == (ours.text, "sending")


async def test_too_late_is_a_refusal_for_good(bank: Bank, tmp_path: Path) -> None:
    now = bank.service.clock.now()
    await contest(bank, opened_at=now - timedelta(days=8), respond_by=now - timedelta(days=1))
    async with open_account_there(bank, "efi", tmp_path) as there:
        refused = await contests_of(there.institution).defend(Defence(name="I1", text="late"))
        assert isinstance(refused, DefenceRefused)
        assert "no longer accepts an answer" in refused.reason


@pytest.mark.parametrize("name", ["efi", "inter", "woovi", "sicoob", "bb"])
async def test_who_tells_of_none_has_none_and_efis_test_environment_has_none(name: str) -> None:
    nobody = Liar()
    opened = open_there(nobody, name)
    assert (opened.contests is not None) == (name == "efi")
    await opened.close()
    there = "https://pix-h.api.efipay.com.br"
    tested = open_there(nobody, "efi", environment="homologation", base_url=there)
    assert tested.contests is None
    await tested.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "NOVA_PALAVRA"}, {"status": None}, {"valor": "0.00"}, {"valor": "-1.00"}, {"valor": "1e99"},
        {"valor": True}, {"endToEndId": "E1"}, {"idInfracao": "a/../b"}, {"idInfracao": ""}, {"idInfracao": True},
        {"idInfracao": "x" * 65}, {"criadoEm": None, "dadosAnalise": {}}, {"dadosAnalise": {"abertura": "yesterday"}},
    ],
)  # fmt: skip
def test_what_cannot_be_relied_on_is_not_guessed(changes: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        decode_contest(ROW | changes)


def test_what_is_only_shown_may_be_anything() -> None:
    odd = decode_contest(ROW | {"razao": 5, "tipoSituacao": "?", "comentario": "x\x00" * 3000, "idInfracao": 7, "valor": 10})
    assert (odd.name, odd.reason, odd.situation, odd.amount_cents) == ("7", "fraud", "other", 1000)
    assert odd.words is not None
    assert len(odd.words) == 2000
    without = decode_contest({key: ROW[key] for key in ("idInfracao", "endToEndId", "valor", "status", "criadoEm")})
    assert without.respond_by == without.opened_at + timedelta(days=7)


def a_page(*rows: object, pages: object = 1) -> dict[str, Any]:
    return {"parametros": {"paginacao": {"quantidadeDePaginas": pages}}, "infracoes": list(rows)}


async def test_one_bad_contest_stops_none_of_the_others(liar: Liar) -> None:  # noqa: F811
    there = open_there(liar, "efi")
    liar.said = answer(a_page(ROW, {"status": "?"}, 5))
    items = await list_all(contests_of(there))
    assert {type(item) for item in items} == {ListedContest, MalformedItem}
    for lie in (a_page(ROW, pages="many"), a_page(pages=10**9)):
        liar.said = answer(lie)
        with pytest.raises(InstitutionUnavailable):
            await list_all(contests_of(there))
    await there.close()


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 500])
async def test_an_answer_without_the_institutions_form_says_nothing(liar: Liar, status: int) -> None:  # noqa: F811
    there = open_there(liar, "efi")
    liar.said = answer("<html>", status, "text/html")
    assert await contests_of(there).defend(Defence(name="I1", text="x")) == DefenceUnknown()
    await there.close()
