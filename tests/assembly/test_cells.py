"""Two databases behind one API and one worker: callers do not know which one has what they ask for."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from pixconnect.adapters.server_file import FILE_NAME, ServerFile
from pixconnect.assembly import api
from pixconnect.domain.frame import cell
from pixconnect.usecases.identity.keyring import RELOAD_UNKNOWN_INTERVAL_S
from pixconnect.usecases.running.installation import InstallationError
from support.cells import NUMBER
from support.cut_connections import open_wire
from support.house import House, Resident, open_house
from support.plain_logs import writing_no_line
from support.postgres import Addresses
from support.webhooks import Receiver, eventually, open_receiver

PLACES = (cell.HOME, NUMBER)
_MOVED_WITHIN_S = 20
_DAYS = {"initial_date": "2020-01-01T00:00:00Z", "final_date": "2099-01-01T00:00:00Z"}


@pytest.fixture
async def house(
    database: Addresses, other_database: Addresses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[House]:
    async with open_house(database, other_database, tmp_path, monkeypatch) as opened:
        yield opened


async def make_charge(holder: Resident, amount_cents: int = 1234) -> Any:
    return await holder.done("POST", "/v1/connect/charge", {"amount": amount_cents, "key": holder.key})


async def read_instant(holder: Resident, charge: Any) -> str:
    """When a charge was made, as its event says once it is in the feed."""
    seen: list[str] = []

    async def is_there() -> bool:
        events = (await holder.done("GET", "/v1/webhook/feed"))["events"]
        seen[:] = [each["create_timestamp"] for each in events if each["resource_id"] == charge["id"]]
        return bool(seen)

    await eventually(is_there)
    return seen[0]


async def test_holders_of_both_cells_do_all_by_one_address(house: House) -> None:
    async with open_receiver() as receiver:
        for number in PLACES:
            holder = await house.open_holder(number, funds_cents=10_000)
            assert cell.cell_of_id(holder.holder_id) == number
            hook = {"url": receiver.url, "secret": "s" * 16, "event_types": ["qrcode.pending"]}
            await holder.done("POST", "/v1/webhook/endpoints", hook)
            start = (await holder.done("GET", "/v1/webhook/feed"))["cursor"]
            waiting = asyncio.create_task(holder.done("GET", "/v1/webhook/feed", query={"cursor": start, "wait_s": 20}))
            charge = await make_charge(holder)
            assert cell.cell_of_id(charge["id"]) == number
            assert cell.find_named_cell(charge["transaction_identification"]) == number
            found = await holder.done("GET", f"/v1/connect/charge/txid/{charge['transaction_identification']}")
            assert found["id"] == charge["id"]
            assert [event["resource_id"] for event in (await waiting)["events"]] == [charge["id"]]
            told = (await receiver.wait_for(1 + PLACES.index(number)))[-1]
            assert charge["transaction_identification"] in told.body.decode()
            assert (await holder.done("GET", "/v1/connect/balance"))["available_funds"] == 10_000
            statement = await holder.ask("GET", "/v1/connect/ledger/statement", query=_DAYS)
            assert statement.status_code == 200, statement.text


async def test_money_comes_and_goes_over_the_one_network_in_both_cells(house: House) -> None:
    for number in PLACES:
        holder = await house.open_holder(number, funds_cents=10_000)
        charge = await make_charge(holder, 1234)
        paid = await holder.done("POST", "/sandbox/v1/payments", {"emv": charge["emvqrcps"]})
        await wait_for_funds(holder, 11_234)
        assert (await holder.done("GET", f"/v1/connect/charge/{charge['id']}"))["status"] == "APPROVED"
        back = {"end_to_end_id": paid["end_to_end_id"], "amount": 34}
        await holder.done("POST", "/v1/connect/refund", back)
        await wait_for_funds(holder, 11_200)
        payee = await holder.done("POST", "/sandbox/v1/keys", {"key_type": "EMAIL"})
        asked = {"amount": 200, "key": payee["key"], "key_type": "EMAIL"}
        sent = await holder.done("POST", "/v1/connect/transfer/key", asked)
        await wait_for_funds(holder, 11_000)
        await holder.done("POST", "/sandbox/v1/returns", {"end_to_end_id": sent["end_to_end_id"], "amount": 50})
        await wait_for_funds(holder, 11_050)
        assert not await house.contexts[number].pool.fetch("select from kept_report")


async def find_party(house: House, holder: Resident) -> dict[str, Any]:
    """A holder's account, as a payer names it."""
    account = await house.contexts[cell.cell_of_id(holder.holder_id)].directory.read_account(holder.holder_id)
    return {
        "account_number": account.party.account_number,
        "account_type": account.party.account_type,
        "branch": account.party.branch,
        "ispb": account.party.ispb,
        "name": account.party.name,
        "tax_id": account.party.tax_id,
    }


async def read_transfer(holder: Resident, end_to_end_id: str) -> Any:
    return await holder.done("GET", f"/v1/connect/transfer/end-to-end-id/{end_to_end_id}")


async def test_a_holder_pays_one_in_another_cell_by_key_account_and_code_and_gets_it_back_in_parts(
    house: House,
) -> None:
    residents = [await house.open_holder(number, funds_cents=10_000) for number in PLACES]
    for payer, payee in (residents, residents[::-1]):
        charge = await make_charge(payee, 500)
        names = list[str]()
        for path, body in (
            ("qrcode", {"amount": 500, "emv": charge["emvqrcps"]}),
            ("key", {"amount": 500, "key": payee.key, "key_type": "EMAIL"}),
            ("manual", {"amount": 500, "credit_party": await find_party(house, payee)}),
            ("manual", {"amount": 500, "credit_party": await find_party(house, payee) | {"key": payee.key}}),
            ("manual", {"amount": 500, "credit_party": await find_party(house, payee) | {"key": payer.key}}),
        ):
            names.append((await payer.done("POST", f"/v1/connect/transfer/{path}", body))["end_to_end_id"])
        await wait_for_funds(payer, 7_500)
        await wait_for_funds(payee, 12_500)
        assert (await payee.done("GET", f"/v1/connect/charge/{charge['id']}"))["status"] == "APPROVED"
        for name in names:
            sent, received = await read_transfer(payer, name), await read_transfer(payee, name)
            assert (sent["status"], sent["impact_type"]) == ("CONFIRMED", "OUT")
            assert (received["status"], received["impact_type"]) == ("CONFIRMED", "IN")
            assert sent["debit_party"] == received["debit_party"]
            assert sent["credit_party"] == received["credit_party"]
            for part in (200, 300):
                await payee.done("POST", "/v1/connect/refund", {"end_to_end_id": name, "amount": part})
            over = await payee.ask("POST", "/v1/connect/refund", {"end_to_end_id": name, "amount": 1})
            assert over.status_code == 422, over.text
        await wait_for_funds(payer, 10_000)
        await wait_for_funds(payee, 10_000)
        assert (await read_transfer(payer, names[0]))["status"] == "RETURNED"
        # Nobody outside has it, so nobody outside returns it.
        refused = await payer.ask("POST", "/sandbox/v1/returns", {"end_to_end_id": names[0]})
        assert refused.status_code == 422, refused.text
    for number in PLACES:
        assert not await house.contexts[number].pool.fetch("select from kept_report")


async def test_what_a_payee_in_another_cell_cannot_take_ends_in_error_and_is_the_payers_again(house: House) -> None:
    payer, payee = [await house.open_holder(number, funds_cents=10_000) for number in PLACES]
    charge = await make_charge(payee, 500)
    asked = {"amount": 500, "emv": charge["emvqrcps"]}
    sent = [await payer.ask("POST", "/v1/connect/transfer/qrcode", asked) for _ in range(3)]
    await wait_for_funds(payer, 9_500)
    await wait_for_funds(payee, 10_500)
    taken = [answer.json()["data"]["end_to_end_id"] for answer in sent if answer.status_code == 200]
    assert len(taken) >= 1
    ends = [(await read_transfer(payer, name)) for name in taken]
    assert sorted(end["status"] for end in ends) == ["CONFIRMED"] + ["ERROR"] * (len(taken) - 1)
    again = await payer.ask("POST", "/v1/connect/transfer/qrcode", asked)
    assert (again.status_code, again.json()["error"]["code"]) == (422, "QR_CODE_ALREADY_PAID")


async def test_a_payee_whose_cell_is_away_cannot_be_looked_up_and_one_that_nobody_has_is_refused(house: House) -> None:
    payer, payee = [await house.open_holder(number, funds_cents=10_000) for number in PLACES]
    party, charge = await find_party(house, payee), await make_charge(payee, 500)
    house.wire.is_away = True
    await house.wire.end()
    asked = [
        ("key", {"amount": 500, "key": payee.key, "key_type": "EMAIL"}),
        ("manual", {"amount": 500, "credit_party": party}),
        ("qrcode", {"amount": 500, "emv": charge["emvqrcps"]}),
    ]

    async def is_refused(path: str, body: object) -> bool:
        return (await payer.ask("POST", f"/v1/connect/transfer/{path}", body)).status_code == 503

    for path, body in asked:
        # Whose a key is may be remembered for a second: then the order is taken, and waits.
        await eventually(partial(is_refused, path, body))
    nobodys = await payer.ask(
        "POST", "/v1/connect/transfer/manual", {"amount": 500, "credit_party": {**party, "account_number": "404404"}}
    )
    assert (nobodys.status_code, nobodys.json()["error"]["code"]) == (422, "INVALID_ACCOUNT")
    house.wire.is_away = False

    async def is_paid() -> bool:
        answers = [await payer.ask("POST", f"/v1/connect/transfer/{path}", body) for path, body in asked]
        return all(answer.status_code in (200, 422) for answer in answers)

    await eventually(is_paid)
    await wait_for_books(payer, payee, 20_000)


async def test_a_payees_cell_that_hangs_is_waited_for_a_few_seconds_and_nobody_else_waits(house: House) -> None:
    payer, payee = [await house.open_holder(number, funds_cents=10_000) for number in PLACES]
    asked = {"amount": 500, "key": payee.key, "key_type": "EMAIL"}
    connection = await asyncpg.connect(house.databases[NUMBER].owner_url, server_settings={"search_path": "pixconnect"})
    try:
        await connection.execute("begin; lock table pix_key in access exclusive mode")
        hung = await payer.ask("POST", "/v1/connect/transfer/key", asked)
        assert (hung.status_code, hung.json()["error"]["code"]) == (503, "SERVICE_UNAVAILABLE")
        await make_charge(payer)
    finally:
        await connection.close()
    await eventually(partial(is_done, payer, asked))
    await wait_for_books(payer, payee, 20_000)


async def is_done(payer: Resident, asked: Mapping[str, object]) -> bool:
    return (await payer.ask("POST", "/v1/connect/transfer/key", asked)).status_code == 200


async def wait_for_books(payer: Resident, payee: Resident, cents: int) -> None:
    """Wait until nothing is under way, and both have so much together."""

    async def are_there() -> bool:
        answers = [await holder.ask("GET", "/v1/connect/balance") for holder in (payer, payee)]
        # One whose database has just come back may be told for a moment that it is away.
        if any(answer.status_code != 200 for answer in answers):
            return False
        found = [answer.json()["data"] for answer in answers]
        return all(each["available_funds"] == each["current_funds"] for each in found) and (
            sum(each["available_funds"] for each in found) == cents
        )

    await eventually(are_there)


async def wait_for_funds(holder: Resident, cents: int) -> None:
    """Wait until nothing is under way, and so much is there."""

    async def are_there() -> bool:
        found = await holder.done("GET", "/v1/connect/balance")
        return found["available_funds"] == found["current_funds"] == cents

    await eventually(are_there)


async def test_what_a_code_leads_to_is_found_in_whichever_cell_and_verified_by_the_published_keys(house: House) -> None:
    kids = {key["kid"] for key in (await house.http.get("/.well-known/jwks.json")).json()["keys"]}
    assert len(kids) == len(PLACES)
    assert len((await house.http.get("/v1/qr/jwks.json")).json()["keys"]) == len(PLACES)
    for number in PLACES:
        holder = await house.open_holder(number)
        charge = await make_charge(holder)
        payload = await house.http.get(f"/v1/qr/{charge['transaction_identification']}")
        assert payload.status_code == 200, payload.text
    for number in PLACES:
        nobodys = cell.draw_tagged(house.contexts[number].entropy, 26, number)
        assert (await house.http.get(f"/v1/qr/{nobodys}")).status_code == 404


async def read_health(house: House) -> Any:
    return (await house.http.get("/v1/connect/health")).json()["data"]


async def is_healthy(house: House) -> bool:
    return (await read_health(house))["checks"]["cells"]["status"] == "healthy"


async def test_a_database_that_goes_away_is_missed_by_its_own_holders_only(house: House) -> None:
    home, there = [await house.open_holder(number) for number in PLACES]
    house.wire.is_away = True
    await house.wire.end()

    async def is_refused() -> bool:
        answer = await there.ask("GET", "/v1/connect/ledger/balance")
        return answer.status_code == 503 and int(answer.headers["retry-after"]) > 0

    await eventually(is_refused)

    async def is_told() -> bool:
        health = await read_health(house)
        assert health["status"] == "degraded"
        assert {name for name, check in health["checks"].items() if check["status"] != "healthy"} <= {"cells"}
        return f"cell {NUMBER}: database: " in health["checks"]["cells"].get("error", "")

    await eventually(is_told)
    for _ in range(20):
        await make_charge(home)
        assert (await home.log_in()).status_code == 200
    assert (await there.log_in()).status_code == 503
    created = await there.ask("POST", "/v1/connect/charge", {"amount": 1, "key": there.key})
    assert created.status_code == 503, created.text
    # Nobody can say now that it is nobody's: it may be one of the cell that is away.
    nobodys = cell.draw_tagged(house.contexts[NUMBER].entropy, 26, NUMBER)
    assert (await house.http.get(f"/v1/qr/{nobodys}")).status_code == 503
    house.wire.is_away = False

    async def is_back() -> bool:
        return (await there.ask("GET", "/v1/connect/ledger/balance")).status_code == 200

    await eventually(is_back)
    assert (await make_charge(there))["status"]
    await eventually(partial(is_healthy, house))


async def test_the_published_keys_of_a_cell_that_hangs_are_those_that_were_read_last_and_nobody_waits_in_line(
    house: House,
) -> None:
    kids = {key["kid"] for key in (await house.http.get("/.well-known/jwks.json")).json()["keys"]}
    house.wire.is_still = True
    try:
        # What was read just now is not read again.
        await asyncio.sleep(RELOAD_UNKNOWN_INTERVAL_S)
        # Who waited for the end of what a server that hangs was asked would wait longer.
        async with asyncio.timeout(12):
            found = await asyncio.gather(*(house.http.get("/.well-known/jwks.json") for _ in range(40)))
    finally:
        house.wire.is_still = False
    assert [answer.status_code for answer in found] == [200] * 40
    assert {key["kid"] for key in found[-1].json()["keys"]} == kids
    await eventually(partial(is_healthy, house))


async def test_a_database_that_is_not_there_when_the_processes_start_is_served_once_it_is(
    database: Addresses, other_database: Addresses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_house(database, other_database, tmp_path, monkeypatch, is_away_at_first=True) as house:
        home = await house.open_holder(cell.HOME)
        await make_charge(home)
        there = await house.open_holder(NUMBER, logs_in=False)
        refused = await there.log_in()
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "SERVICE_UNAVAILABLE")
        assert int(refused.headers["retry-after"]) > 0
        told = (await read_health(house))["checks"]["cells"]
        assert (told["status"], told["error"]) == ("degraded", f"cell {NUMBER} is not served by this process")
        house.wire.is_away = False

        async def comes_in() -> bool:
            return (await there.log_in()).status_code == 200

        await eventually(comes_in)
        await make_charge(there)
        await eventually(partial(is_healthy, house))


async def test_who_has_not_read_yet_which_cells_there_are_does_not_say_that_nobody_knows_something(
    database: Addresses, other_database: Addresses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = await asyncpg.connect(database.owner_url, server_settings={"search_path": "pixconnect"})
    try:
        await connection.execute("begin; lock table cell in access exclusive mode")
        async with open_house(database, other_database, tmp_path, monkeypatch, is_added=False) as house:
            nobodys = f"/v1/qr/{cell.draw_tagged(house.contexts[cell.HOME].entropy, 26, NUMBER)}"
            assert (await house.http.get(nobodys)).status_code == 503
            await connection.execute("commit")

            async def is_known() -> bool:
                return (await house.http.get(nobodys)).status_code == 404

            await eventually(is_known)
    finally:
        await connection.close()


async def test_a_cell_that_is_added_is_served_without_a_restart(
    database: Addresses, other_database: Addresses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_house(database, other_database, tmp_path, monkeypatch, is_added=False) as house:
        await make_charge(await house.open_holder(cell.HOME))
        assert "cells" not in (await read_health(house))["checks"]
        await house.add_cell()

        async def is_served() -> bool:
            return len((await house.http.get("/.well-known/jwks.json")).json()["keys"]) == len(PLACES)

        await eventually(is_served)
        await make_charge(await house.open_holder(NUMBER))


async def test_a_cell_at_another_address_is_served_there_without_a_restart(
    database: Addresses, other_database: Addresses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening = open_house(database, other_database, tmp_path, monkeypatch, is_looked_at_often=True)
    async with opening as house, open_wire(other_database) as (_, near), open_receiver() as receiver:
        home, there = [await house.open_holder(number) for number in PLACES]
        hook = {"url": receiver.url, "secret": "s" * 16, "event_types": ["qrcode.pending"]}
        await there.done("POST", "/v1/webhook/endpoints", hook)
        cursor = (await there.done("GET", "/v1/webhook/feed"))["cursor"]
        waiting = asyncio.create_task(there.ask("GET", "/v1/webhook/feed", query={"cursor": cursor, "wait_s": 30}))
        await eventually(lambda: is_waiting(house))
        await house.lead_to(near)
        # Nobody waits for events at a database that nobody asks any more.
        async with asyncio.timeout(_MOVED_WITHIN_S):
            assert (await waiting).status_code in {200, 503}
            while house.begun.count(NUMBER) < 2:  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(0.05)
        house.wire.is_away = True
        await house.wire.end()

        async def is_served() -> bool:
            return (await there.ask("GET", "/v1/connect/ledger/balance")).status_code == 200

        await eventually(is_served)
        charge = await make_charge(there)
        assert charge["transaction_identification"] in (await receiver.wait_for(1))[-1].body.decode()
        await eventually(partial(is_healthy, house))
        await make_charge(home)


async def is_waiting(house: House) -> bool:
    listening = "select exists (select from pg_stat_activity where application_name = 'pixconnect feed')"
    return bool(await house.contexts[NUMBER].pool.fetchval(listening))


async def test_a_cell_whose_new_address_does_not_answer_is_away_and_may_come_back(
    database: Addresses, other_database: Addresses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening = open_house(database, other_database, tmp_path, monkeypatch, is_looked_at_often=True)
    async with opening as house, open_wire(other_database) as (wire, near):
        home, there = [await house.open_holder(number) for number in PLACES]
        wire.is_away = True
        await house.lead_to(near)

        async def is_refused() -> bool:
            answer = await there.ask("GET", "/v1/connect/ledger/balance")
            return answer.status_code == 503 and int(answer.headers["retry-after"]) > 0

        await eventually(is_refused)
        # It may be one of that cell.
        nobodys = cell.draw_tagged(house.contexts[NUMBER].entropy, 26, NUMBER)
        assert (await house.http.get(f"/v1/qr/{nobodys}")).status_code == 503
        await make_charge(home)
        await house.lead_to(house.near)

        async def is_back() -> bool:
            return (await there.ask("GET", "/v1/connect/ledger/balance")).status_code == 200

        await eventually(is_back)
        await make_charge(there)


async def test_an_address_that_was_wrong_is_left_though_its_server_never_answers(
    database: Addresses, other_database: Addresses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening = open_house(
        database, other_database, tmp_path, monkeypatch, is_looked_at_often=True, is_away_at_first=True
    )
    async with opening as house, open_wire(other_database) as (_, near):
        there = await house.open_holder(NUMBER, logs_in=False)
        house.wire.is_still, house.wire.is_away = True, False
        await house.lead_to(near)

        async def comes_in() -> bool:
            return (await there.log_in()).status_code == 200

        await eventually(comes_in)
        await make_charge(there)
        house.wire.is_still = False


@pytest.mark.parametrize("writing", [nullcontext, writing_no_line], ids=["told", "without memory for a line"])
async def test_a_defect_that_a_worker_meets_in_one_cell_ends_nothing_elsewhere_and_it_goes_on(
    database: Addresses,
    other_database: Addresses,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    writing: Callable[[], AbstractContextManager[None]],
) -> None:
    opening = open_house(database, other_database, tmp_path, monkeypatch, has_defect=True)
    with writing():
        async with opening as house, open_receiver() as receiver:
            await hear_of_charges(house, receiver)
    assert sorted(house.begun) == [cell.HOME, NUMBER, NUMBER]


async def hear_of_charges(house: House, receiver: Receiver) -> None:
    """Webhooks of either cell arrive, so a worker is at work there."""
    for number in PLACES:
        holder = await house.open_holder(number)
        hook = {"url": receiver.url, "secret": "s" * 16, "event_types": ["qrcode.pending"]}
        await holder.done("POST", "/v1/webhook/endpoints", hook)
        await make_charge(holder)
    await receiver.wait_for(len(PLACES))


async def test_a_database_that_says_it_is_another_cell_is_served_to_nobody(
    database: Addresses, other_database: Addresses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_house(database, other_database, tmp_path, monkeypatch, has_other_identity=True) as house:
        there = await house.open_holder(NUMBER, logs_in=False)
        assert (await there.log_in()).status_code == 503
        await make_charge(await house.open_holder(cell.HOME))


async def test_no_process_begins_at_another_cell_than_the_home_cell(house: House) -> None:
    settings = house.settings_of(NUMBER)
    with pytest.raises(InstallationError, match="an installation begins at its home cell"):
        await api.serve(settings, [], asyncio.Event(), lambda: None)


async def test_the_clock_of_the_sandbox_is_that_of_all_cells(house: House) -> None:
    home, there = [await house.open_holder(number) for number in PLACES]
    charge = await make_charge(there)
    moved = await home.done("POST", "/sandbox/v1/clock", {"advance_s": 40 * 86_400})
    # What falls due on the way is done there too.
    found = await there.done("GET", f"/v1/connect/charge/{charge['id']}")
    assert found["status"] == "EXPIRED"
    assert await read_instant(there, await make_charge(there)) >= moved["now"]
    await there.done("POST", "/sandbox/v1/clock", {"reset": True})
    assert await read_instant(there, await make_charge(there)) < moved["now"]


def test_what_is_known_of_each_server_is_kept_in_a_file_of_its_own(tmp_path: Path) -> None:
    assert ServerFile(tmp_path)._path.name == FILE_NAME
    assert ServerFile(tmp_path, 7)._path.name == "database-7.json"
