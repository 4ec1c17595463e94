"""Closing an account whose institution is gone: its final file is read, its balance leaves, and two operators agree."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import date
from typing import Any

import asyncpg
import pytest
from msgspec import structs

from pixconnect.features.cases.service.adjustment import WantedAdjustment, propose_adjustment
from pixconnect.features.institutions.accounts import INSTITUTIONS
from pixconnect.features.institutions.rules.account import Credential
from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.features.institutions.service import proposals as closing_usecases
from pixconnect.features.institutions.service import statement_account
from pixconnect.features.institutions.service.open_accounts import open_credential
from pixconnect.features.institutions.service.statement import record_file, settle_items
from pixconnect.features.institutions.service.statement_sweep import record_listed
from pixconnect.features.institutions.service.succession import move_holder
from pixconnect.features.institutions.service.sweep import post_opening
from pixconnect.features.movements import tables as movement_store
from pixconnect.features.proof.service.verify import RULES
from pixconnect.features.proof.tables import look
from pixconnect.kernel.flows.context import Context, Operator
from pixconnect.kernel.flows.directory import HolderDirectory, OwnAccount
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection
from support.account_shop import Shop, make_owner, open_shop
from support.books import check_books
from support.fake_institution import FakeInstitution, a_description
from support.operators import as_operator, execute
from support.postgres import Copy
from support.proposals import confirm_waiting
from support.service import Service
from support.statement_files import OFX_HEADER, make_ofx_line


class KilledError(Exception):
    """The process dies here."""


def final_file(balance: str = "150.00", day: str = "20260701") -> bytes:
    return f"""{OFX_HEADER}<OFX>
<SIGNONMSGSRSV1><SONRS><STATUS><CODE>0<SEVERITY>INFO</STATUS><DTSERVER>{day}<LANGUAGE>POR</SONRS></SIGNONMSGSRSV1>
<BANKMSGSRSV1><STMTTRNRS><TRNUID>1<STATUS><CODE>0<SEVERITY>INFO</STATUS><STMTRS><CURDEF>BRL
<BANKACCTFROM><BANKID>077<ACCTID>123456<ACCTTYPE>CHECKING</BANKACCTFROM>
<BANKTRANLIST><DTSTART>{day}<DTEND>{day}</BANKTRANLIST>
<LEDGERBAL><BALAMT>{balance}<DTASOF>{day}</LEDGERBAL></STMTRS></STMTTRNRS></BANKMSGSRSV1></OFX>
""".encode()


async def open_filled(live: Service, there: FakeInstitution) -> tuple[Shop, Operator, Operator]:
    there.balance_cents = 100_00
    shop = await open_shop(live, there)
    await post_opening(shop.at, shop.account)
    maria, joana = (as_operator(live.context, name) for name in ("maria", "joana"))
    await record_file(maria, "loja", final_file("100.00", "20260630"))
    return shop, maria, joana


async def funds_of(shop: Shop) -> Any:
    (row,) = await shop.live.fetch(
        f"select available_cents, settlement_cents, deficit_cents from whole_balance where holder_id = {shop.account.house_id}"
    )
    return tuple(row)


async def test_two_operators_close_an_account_and_its_balance_leaves(live: Service, there: FakeInstitution) -> None:
    shop, maria, joana = await open_filled(live, there)
    await shop.receive(50_00)
    charge = await shop.charge("order-1")
    # A bank that writes the days that were asked for: nothing of those to come is known.
    proposed = await closing_usecases.propose_closing(maria, shop.context, "loja", final_file(day="20260731"))
    assert proposed.contents == dict(last_on="2026-07-01", closing_cents=150_00, balance_here_cents=150_00)
    shown = await account_usecases.read_account(maria, "loja")
    assert (shown.account.state, [one.act for one in shown.waiting]) == ("active", ["close"])
    with pytest.raises(errors.Forbidden, match="another operator"):
        await confirm_waiting(maria, shop.context, "loja")
    await confirm_waiting(joana, shop.context, "loja")
    shown = await account_usecases.read_account(maria, "loja")
    assert (shown.account.state, shown.balance_here_cents, shown.waiting) == ("closed", 0, [])
    assert await funds_of(shop) == (0, 0, 0)
    rows = await live.fetch(f"select status from charge where id = {charge.id}")
    assert rows[0]["status"] == "REMOVED_BY_PSP"
    with pytest.raises(errors.NotFound, match="no proposal with the code"):
        await confirm_waiting(joana, shop.context, "loja")
    await check_books(live)


async def test_nothing_is_adjusted_on_a_closed_account(live: Service, there: FakeInstitution) -> None:
    shop, maria, joana = await open_filled(live, there)
    (case,) = await live.fetch(
        "insert into kept_case (kind, institution_id, holder_id, name, amount_cents, facts, since)"
        f" values ('day', {shop.account.id}, {shop.account.house_id}, '2026-06-20', 300, 'a difference', now()) returning id"
    )
    wanted = WantedAdjustment(case_id=case["id"], kind="bank_error")
    code = (await propose_adjustment(maria, wanted)).code
    await closing_usecases.propose_closing(maria, shop.context, "loja", final_file("100.00"))
    await confirm_waiting(joana, shop.context, "loja", "close")
    for refused in (confirm_waiting(joana, shop.context, "loja", code=code), propose_adjustment(maria, wanted)):
        with pytest.raises(errors.BadRequest, match="the account loja is closed"):
            await refused
    assert await funds_of(shop) == (0, 0, 0)
    await check_books(live)


async def test_a_closed_account_stays_closed_and_its_holders_stay_on_it(live: Service, there: FakeInstitution) -> None:
    shop, maria, joana = await open_filled(live, there)
    await closing_usecases.propose_closing(maria, shop.context, "loja", final_file("100.00"))
    await confirm_waiting(joana, shop.context, "loja")
    for refused in (
        account_usecases.set_state(maria, "loja", "active"),
        closing_usecases.propose_closing(maria, shop.context, "loja", final_file()),
    ):
        with pytest.raises(errors.BadRequest, match="closed"):
            await refused
    with pytest.raises(asyncpg.IntegrityConstraintViolationError) as caught:
        await live.execute_as_owner("update institution_account set state = 'active'")
    assert caught.value.constraint_name == "what_is_closed_stays_closed"
    # Its payments may still be returned: another account has another house.
    said = structs.replace(a_description(), account="")
    with pytest.raises(errors.BadRequest, match="is on another account"):
        await account_usecases.add_account(maria, there.open, "banco", said, shop.account.house_id)
    house = await make_owner(live, "2")
    await account_usecases.add_account(maria, there.open, "banco", said, house)
    with pytest.raises(errors.BadRequest, match=r"it has had money there.*pixconnect holder succeed"):
        await move_holder(maria, shop.account.house_id, "banco")
    with pytest.raises(asyncpg.IntegrityConstraintViolationError) as caught:
        await live.execute_as_owner(f"update holder set institution_id = null where id = {shop.account.house_id}")
    assert caught.value.constraint_name == "a_holder_stays_on_its_account"
    with pytest.raises(errors.BadRequest, match="closed"):
        await move_holder(maria, house, "loja")


async def test_no_account_is_closed_by_one_operator_or_with_money(live: Service, there: FakeInstitution) -> None:
    shop = await open_shop(live, there)
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="not closed by one operator"):
        await execute(live.context, "update institution_account set state = 'closed'")
    await shop.receive(1_00)
    with pytest.raises(asyncpg.IntegrityConstraintViolationError) as caught:
        await live.execute_as_owner("update institution_account set state = 'closed'")
    assert caught.value.constraint_name == "a_closed_account_is_empty"


def meanwhile(shop: Shop, act: Callable[[], Awaitable[object]]) -> Context:
    """It acts after the proposed balance was read, and before it leaves."""

    class Acting(HolderDirectory):
        async def read_account(self, holder_id: int) -> OwnAccount:
            await act()
            return await shop.context.directory.read_account(holder_id)

    return structs.replace(shop.context, directory=Acting(shop.live.context.pool, "", "", shop.live.clock.monotonic_s))


async def die() -> None:
    raise KilledError


@pytest.mark.parametrize("is_lost", [False, True])
async def test_what_is_killed_is_confirmed_again(live: Service, there: FakeInstitution, *, is_lost: bool) -> None:
    shop, maria, joana = await open_filled(live, there)
    if is_lost:
        await live.execute_as_owner(
            "insert into database_loss (reason, system_identifier, started_at, orders_count) values ('a test', 1, now(), 0)"
        )
    await closing_usecases.propose_closing(maria, shop.context, "loja", final_file("100.00"))
    with pytest.raises(KilledError):
        await confirm_waiting(joana, meanwhile(shop, die), "loja")
    shown = await account_usecases.read_account(maria, "loja")
    # What a loss has paused is that until it is closed.
    assert (shown.account.state, shown.account.lost_at is not None, shown.balance_here_cents) == ("paused", is_lost, 100_00)
    await confirm_waiting(joana, shop.context, "loja")
    account = (await account_usecases.read_account(maria, "loja")).account
    assert (account.state, account.lost_at, await funds_of(shop)) == ("closed", None, (0, 0, 0))
    await check_books(live)


async def test_two_who_confirm_at_once_take_the_balance_out_once(
    live: Service, there: FakeInstitution, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, maria, joana = await open_filled(live, there)
    await closing_usecases.propose_closing(maria, shop.context, "loja", final_file("100.00"))
    find_items = movement_store.find_items

    async def confirm_first(*asked: Any) -> Any:
        monkeypatch.undo()
        await confirm_waiting(as_operator(live.context, "bia"), shop.context, "loja")
        return await find_items(*asked)

    monkeypatch.setattr(movement_store, "find_items", confirm_first)
    with pytest.raises(errors.BadRequest, match="the books have moved since it was proposed"):
        await confirm_waiting(joana, shop.context, "loja")
    assert await funds_of(shop) == (0, 0, 0)
    await check_books(live)


async def test_no_account_is_closed_over_a_difference(live: Service, there: FakeInstitution) -> None:
    shop, maria, _ = await open_filled(live, there)
    without = final_file().replace(b"<LEDGERBAL><BALAMT>150.00<DTASOF>20260701</LEDGERBAL>", b"")
    refusals = {"no closing balance": without, "is 10001 cents, and that of the books 10000": final_file("100.01")}
    for refusal, content in refusals.items():
        with pytest.raises(errors.BadRequest, match=refusal):
            await closing_usecases.propose_closing(maria, shop.context, "loja", content)
    assert (await account_usecases.read_account(maria, "loja")).waiting == []


@pytest.mark.parametrize(
    ("day", "closing", "amount", "memo", "refusal"),
    [
        ("20260702", "200.00", "50.00", "TED RECEBIDA", "another file or balance of 2026-07-02 is recorded"),
        ("20260701", "200.00", "50.00", "TED RECEBIDA", "another file or balance of 2026-07-01 is recorded"),
        ("20260701", "150.00", "50.00", "TED RECEBIDA", "another file or balance of 2026-07-01 is recorded"),
        ("20260702", "100.00", "-50.00", "APLICACAO AUTOMATICA", "5000 cents of the account are invested"),
    ],
)
async def test_no_account_is_closed_over_newer_evidence(
    live: Service, there: FakeInstitution, day: str, closing: str, amount: str, memo: str, refusal: str
) -> None:
    shop, maria, joana = await open_filled(live, there)
    await shop.receive(50_00)
    live.clock.advance(days=2)
    newer = make_ofx_line(item_id="N9", at=day, amount=amount, memo=memo).encode() + b"</BANKTRANLIST>"

    async def read_newer() -> None:
        live.clock.advance(seconds=1)
        await record_file(maria, "loja", final_file(closing, day).replace(b"</BANKTRANLIST>", newer))
        await settle_items(shop.at, shop.account)

    await closing_usecases.propose_closing(maria, shop.context, "loja", final_file())
    with pytest.raises(errors.BadRequest, match=f"confirm: the account is paused, and .*{refusal}"):
        await confirm_waiting(joana, meanwhile(shop, read_newer), "loja")
    with pytest.raises(errors.BadRequest, match=f"confirm: .*{refusal}"):
        await confirm_waiting(joana, shop.context, "loja")
    with pytest.raises(errors.BadRequest, match=f"statement: .*{refusal}"):
        await closing_usecases.propose_closing(maria, shop.context, "loja", final_file())
    # Days to come, which the older file names, are none that it shows.
    month = final_file().replace(b"<DTEND>20260701", b"<DTEND>20260731").replace(b"<DTASOF>20260701", b"<DTASOF>20260731")
    with pytest.raises(errors.BadRequest, match=f"statement: .*({refusal}|line N9)"):
        await closing_usecases.propose_closing(maria, shop.context, "loja", month)
    assert (await account_usecases.read_account(maria, "loja")).account.state == "paused"
    await check_books(live)


async def test_no_line_is_recorded_once_its_account_is_closed(
    live: Service, there: FakeInstitution, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, maria, joana = await open_filled(live, there)
    await closing_usecases.propose_closing(maria, shop.context, "loja", final_file("100.00"))
    choose = statement_account.choose

    async def close_first(*asked: Any, **told: Any) -> Any:
        monkeypatch.undo()
        await confirm_waiting(joana, shop.context, "loja")
        return await choose(*asked, **told)

    monkeypatch.setattr(statement_account, "choose", close_first)
    line = InstitutionItem(item_id="N1", day=date(2026, 7, 1), settled_at=None, direction="IN", amount_cents=1, kind="wire")
    for late in record_file(maria, "loja", final_file("200.00", "20260702")), record_listed(shop.at, shop.account, [line]):
        with pytest.raises(errors.BadRequest, match="account: loja is closed: no line is posted on it any more"):
            await late


@pytest.mark.parametrize("is_cut_off", [False, True])
async def test_what_was_confirmed_is_what_leaves(live: Service, there: FakeInstitution, *, is_cut_off: bool) -> None:
    shop, maria, joana = await open_filled(live, there)
    await closing_usecases.propose_closing(maria, shop.context, "loja", final_file("100.00"))
    if is_cut_off:
        with pytest.raises(errors.BadRequest, match="the account is paused, and the books have moved"):
            await confirm_waiting(joana, meanwhile(shop, lambda: shop.receive(7_00)), "loja")
        assert await funds_of(shop) == (7_00, -7_00, 0)
    else:
        await shop.receive(7_00)
    with pytest.raises(errors.BadRequest, match="the books have moved since it was proposed"):
        await confirm_waiting(joana, shop.context, "loja")
    proposed = await closing_usecases.propose_closing(maria, shop.context, "loja", final_file("107.00"))
    assert proposed.contents["balance_here_cents"] == 107_00
    await confirm_waiting(joana, shop.context, "loja")
    assert await funds_of(shop) == (0, 0, 0)
    rows = await live.fetch("select sum(amount_cents) as cents from movement where item_id like 'closing-balance:%'")
    assert rows[0]["cents"] == 107_00
    await check_books(live)


@pytest.mark.long
async def test_a_reading_under_way_credits_nothing_once_closed(live: Service, there: FakeInstitution) -> None:
    shop, maria, joana = await open_filled(live, there)

    async def keep_reading() -> None:
        for _ in range(30):
            await shop.receive(1_00)

    reading = asyncio.create_task(keep_reading())
    state = "active"
    while state != "closed":
        # A payment before the closing is seen, and requires a new proposal.
        with suppress(errors.BadRequest, errors.NotFound):
            paid_cents = sum(pix.amount_cents for pix in there.received)
            file = final_file(f"{100 + paid_cents // 100}.00")
            await closing_usecases.propose_closing(maria, shop.context, "loja", file)
            await confirm_waiting(joana, shop.context, "loja")
        state = (await account_usecases.read_account(maria, "loja")).account.state
    await shop.receive(1_00)
    await reading
    assert await funds_of(shop) == (0, 0, 0)
    await check_books(live)


async def test_what_90_days_do_not_name_is_removed(live: Service, there: FakeInstitution) -> None:
    shop, maria, joana = await open_filled(live, there)
    await shop.receive(50_00)
    with pytest.raises(errors.BadRequest, match="a holder is on it"):
        await account_usecases.remove_account(maria, "loja")
    await closing_usecases.propose_closing(maria, shop.context, "loja", final_file())
    await confirm_waiting(joana, shop.context, "loja")
    with pytest.raises(errors.BadRequest, match="money has moved on it in the last 90 days"):
        await account_usecases.remove_account(maria, "loja")
    live.clock.advance(days=91)
    await account_usecases.remove_account(maria, "loja")
    assert await account_usecases.list_institutions(maria) == []
    with pytest.raises(errors.NotFound):
        await account_usecases.read_account(maria, "loja")
    (row,) = await live.fetch("select receiving_sealed, sending_sealed from institution_account")
    assert tuple(row) == (b"", None)
    # The name is free, the id is not.
    again = await account_usecases.add_account(maria, there.open, "loja", a_description(), await make_owner(live, "2"))
    assert again.id == shop.account.id + 1


async def test_a_process_that_missed_the_closing_opens_no_charge(live: Service, there: FakeInstitution) -> None:
    shop, maria, joana = await open_filled(live, there)
    await closing_usecases.propose_closing(maria, shop.context, "loja", final_file("100.00"))
    # It has just read the accounts, and uses that for a second.
    assert await shop.context.port(INSTITUTIONS).find(shop.account.id) is not None
    await confirm_waiting(joana, shop.context, "loja")
    with pytest.raises(errors.ServiceUnavailable, match="nothing was done"):
        await shop.charge("too-late")
    assert there.calls == []
    assert await live.fetch("select state from charge_opening") == []


async def test_a_charge_that_opens_while_the_account_closes_ends_too(live: Service, there: FakeInstitution) -> None:
    shop, maria, joana = await open_filled(live, there)
    await closing_usecases.propose_closing(maria, shop.context, "loja", final_file("100.00"))

    async def open_once() -> None:
        # As a process that began before it heard of the pause.
        await live.execute_as_owner("update institution_account set state = 'active'")
        await shop.charge("meanwhile")
        await live.execute_as_owner("update institution_account set state = 'paused'")

    with pytest.raises(errors.BadRequest, match="confirm again"):
        await confirm_waiting(joana, meanwhile(shop, open_once), "loja")
    await confirm_waiting(joana, shop.context, "loja")
    assert [row["status"] for row in await live.fetch("select status from charge")] == ["REMOVED_BY_PSP"]
    await check_books(live)


async def test_a_caller_that_waits_for_a_charge_is_told(live: Service, there: FakeInstitution) -> None:
    shop, maria, joana = await open_filled(live, there)
    await closing_usecases.propose_closing(maria, shop.context, "loja", final_file("100.00"))

    async def close() -> None:
        await confirm_waiting(joana, shop.context, "loja")

    there.before_answer = close
    with pytest.raises(errors.ServiceUnavailable, match="the account is closed"):
        await shop.charge("under-way")
    assert await live.fetch("select id from charge") == []


async def test_no_charge_opens_on_an_account_that_its_holder_has_left(live: Service, there: FakeInstitution) -> None:
    shop = await open_shop(live, there)
    # A process uses its knowledge of the holder for a second.
    assert (await shop.context.directory.read_account(shop.account.house_id)).institution_id == shop.account.id
    # As by an older program, because a house stays on its account.
    await live.execute_as_owner(
        "alter table holder disable trigger keep_account; update holder set institution_id = null; "
        "alter table holder enable trigger keep_account"
    )
    with pytest.raises(errors.ServiceUnavailable, match="nothing was done"):
        await shop.charge("left")
    with pytest.raises(asyncpg.IntegrityConstraintViolationError) as caught:
        await live.execute_as_owner(
            "insert into charge_opening (charge_id, holder_id, institution_id, external_id, txid, state, wanted, fingerprint,"
            f" due_at, created_at) values (1, {shop.account.house_id}, {shop.account.id}, 'left', repeat('a', 26), 'opening',"
            " '{}', '', now(), now())"
        )
    assert caught.value.constraint_name == "a_charge_opens_on_its_holders_account"
    assert there.calls == []


OTHER_ADDRESSES = dict(
    base_url="https://other.example", token_url="https://token.example", authorities="PEM\n" * 100, poll_s=30
)


async def test_another_operator_confirms_other_addresses(live: Service, there: FakeInstitution) -> None:
    shop = await open_shop(live, there, environment="production")
    maria, joana = (as_operator(live.context, name) for name in ("maria", "joana"))
    said = a_description(environment="production", receiving=Credential(client_id="us", client_secret="new"), **OTHER_ADDRESSES)
    after = await account_usecases.rotate_account(maria, "loja", said)
    # The rest is replaced at once.
    assert (after.base_url, after.token_url, after.authorities) == (shop.account.base_url, "", "")
    assert (after.poll_s, (await open_credential(maria, after.id)).client_secret) == (30, "new")
    shown = await account_usecases.read_account(maria, "loja")
    assert (shown.account, [one.act for one in shown.waiting]) == (after, ["rotate"])
    assert "authorities sha256 " in shown.waiting[0].text
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="by two operators only"):
        await execute(live.context, "update institution_account set base_url = 'https://other.example'")
    await confirm_waiting(joana, shop.context, "loja")
    shown = await account_usecases.read_account(maria, "loja")
    assert shown.waiting == []
    assert shown.account == structs.replace(after, revision=after.revision + 1, **OTHER_ADDRESSES)
    assert await Copy.ask(live.database, find_not_audited) == []


async def find_not_audited(connection: Connection) -> list[str]:
    rules = [rule for rule in RULES if rule.name in ("approval_is_audited", "account_is_as_audited")]
    return [found.rule for rule in rules for found in await look.ask(connection, rule, None, None)]


async def test_a_rotation_with_the_present_addresses_withdraws_others(live: Service, there: FakeInstitution) -> None:
    await open_shop(live, there, environment="production")
    maria = as_operator(live.context, "maria")
    for changes in OTHER_ADDRESSES, dict[str, object]():
        await account_usecases.rotate_account(maria, "loja", a_description(environment="production", **changes))
    assert (await account_usecases.read_account(maria, "loja")).waiting == []


async def test_a_counterpart_gets_other_addresses_at_once(live: Service, there: FakeInstitution) -> None:
    shop, said = await open_shop(live, there), a_description(**OTHER_ADDRESSES)
    after = await account_usecases.rotate_account(as_operator(live.context, "maria"), "loja", said)
    assert after == structs.replace(shop.account, revision=2, **OTHER_ADDRESSES)
