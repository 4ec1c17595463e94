"""Holders and their accounts: a company changes its bank, and a holder stays where it has ever had anything."""

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from msgspec import structs

from pixconnect.features.cases.service.case import list_cases, look_for_cases
from pixconnect.features.finding.service.timeline import read_delivery_view, read_timeline
from pixconnect.features.identity.service import access as access_usecases
from pixconnect.features.institutions.accounts import INSTITUTIONS
from pixconnect.features.institutions.rules.account import Credential, InstitutionAccount
from pixconnect.features.institutions.rules.institution import NotSent, UnknownOutcome
from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.features.institutions.service.succession import Succession, move_holder, succeed_holder
from pixconnect.features.pix_api.service import charge as standard_usecases
from pixconnect.features.pix_api.service import key_webhook
from pixconnect.features.pix_api.service.charge import find_pix
from pixconnect.features.proof.tables import look
from pixconnect.features.proof.tables.audit import AUDIT
from pixconnect.features.receipts.service import read_receipt
from pixconnect.features.webhooks.rules.endpoint import EndpointRequest
from pixconnect.features.webhooks.service import endpoint as endpoint_usecases
from pixconnect.features.webhooks.service import redelivery as redelivery_usecases
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import holder as holder_usecases
from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.holder import HolderChanges
from pixconnect.kernel.rules.access import READING_SCOPES, SCOPES, Caller, Viewer
from pixconnect.kernel.rules.br_code import parse_br_code
from pixconnect.kernel.rules.charge_contents import ChargeContents, ContentsChange
from pixconnect.kernel.rules.listing import Span
from pixconnect.kernel.rules.transfer import AccountTransferRequest, KeyTransferRequest, QrCodeTransferRequest
from pixconnect.platform.base import errors
from support.account_shop import Shop, make_owner, open_shop
from support.books import check_books
from support.fake_institution import FakeInstitution, a_description
from support.operators import as_operator
from support.postgres import as_owner
from support.records import own_key
from support.service import Service, read_funds


async def add_banco(shop: Shop) -> InstitutionAccount:
    house = await make_owner(shop.live, "9")
    said = a_description(
        keys=["banco@test.example"], receiving=Credential(client_id="branch"), base_url="https://127.0.0.1:8106"
    )
    return await account_usecases.add_account(as_operator(shop.live.context), shop.there.open, "banco", said, house)


async def make_company(shop: Shop) -> Caller:
    await add_banco(shop)
    operator = as_operator(shop.live.context)
    holder_id = await make_owner(shop.live, "2")
    await move_holder(operator, holder_id, "loja")
    await access_usecases.create_client(operator, holder_id, "Shop", list(SCOPES), client_id="company")
    return structs.replace(shop.house, holder_id=holder_id)


async def succeed(shop: Shop, company: Caller, number: str = "77", institution: str = "banco") -> Succession:
    return await succeed_holder(as_operator(shop.live.context), company.holder_id, institution, number, "0001")


async def heir_of(shop: Shop, company: Caller) -> Caller:
    return structs.replace(company, holder_id=(await succeed(shop, company)).heir.id)


def request(external_id: str = "order-1", amount_cents: int = 100, **changes: Any) -> KeyTransferRequest:
    key = KeyTransferRequest(amount_cents=amount_cents, key=own_key("1"), key_type="EMAIL", external_id=external_id)
    return structs.replace(key, **changes)


async def test_the_successor_has_clients_keys_and_limits(shop: Shop) -> None:
    company = await make_company(shop)
    operator = as_operator(shop.live.context)
    await holder_usecases.set_holder(operator, company.holder_id, HolderChanges(transfer_limit_cents=500))
    before = await shop.live.fetch("select revision from access_revision")
    done = await succeed(shop, company)
    assert (done.former.successor_id, done.former.family_id, done.heir.family_id) == (
        done.heir.id,
        company.holder_id,
        company.holder_id,
    )
    assert [key.key for key in done.keys] == [own_key("2")] == list(done.keys_to_claim)
    (client,) = done.clients
    assert (client.client_id, client.holder_id, client.tokens_from is None) == ("company", done.heir.id, False)
    assert done.heir.transfer_limit_cents == 500
    assert await shop.live.fetch("select revision from access_revision") != before
    await check_books(shop.live)


async def test_twice_is_once_and_two_at_once_are_one(shop: Shop) -> None:
    company = await make_company(shop)
    first, second = await asyncio.gather(succeed(shop, company), succeed(shop, company))
    assert first == second == await succeed(shop, company)
    assert len(await shop.live.fetch("select from holder where successor_id is not null")) == 1
    with pytest.raises(errors.BadRequest, match=f"was succeeded by holder {first.heir.id}"):
        await succeed(shop, company, "78")


async def test_what_dies_in_the_middle_has_done_nothing(shop: Shop) -> None:
    company = await make_company(shop)
    await shop.live.execute_as_owner(
        "create function die() returns trigger language plpgsql as $$ begin raise exception 'dead'; end $$;"
        "create trigger die before update on client for each row execute function die()"
    )
    with pytest.raises(asyncpg.PostgresError):
        await succeed(shop, company)
    assert await shop.live.fetch("select from holder where family_id is not null or account_number = '77'") == []
    await shop.live.execute_as_owner("drop function die() cascade")
    assert (await succeed(shop, company)).heir.account_number == "77"


async def test_what_cannot_be_succeeded_says_why(shop: Shop) -> None:
    company = await make_company(shop)
    nobody = structs.replace(company, holder_id=99)
    with pytest.raises(errors.NotFound, match="no holder 99"):
        await succeed(shop, nobody)
    with pytest.raises(errors.NotFound, match="no account nowhere"):
        await succeed(shop, company, institution="nowhere")
    with pytest.raises(errors.BadRequest, match="lies on the account loja"):
        await succeed(shop, company, institution="loja")
    with pytest.raises(errors.InvalidAccount):
        await succeed(shop, company, "9")
    await shop.live.set_holder(company, is_disabled=True)
    with pytest.raises(errors.BadRequest, match="is disabled"):
        await succeed(shop, company)


async def test_charges_that_are_being_opened_end_first(shop: Shop) -> None:
    company = await make_company(shop)
    shop.there.answers = [UnknownOutcome(reason="silence")]
    with pytest.raises(errors.OutcomeUnknown):
        await structs.replace(shop, house=company).charge("order-1", key="2")
    with pytest.raises(errors.BadRequest, match="charges of it are being opened"):
        await succeed(shop, company)


async def test_a_repeat_of_what_the_former_one_asked_for_is_answered_and_not_done_again(shop: Shop) -> None:
    company = await make_company(shop)
    await shop.receive(1000, key=own_key("2"))
    made = await transfer_usecases.start_transfer(shop.context, company, request())
    charge = await structs.replace(shop, house=company).charge("charge-1", key="2")
    heir = await heir_of(shop, company)
    again = await transfer_usecases.start_transfer(shop.context, heir, request())
    assert again.transfer.id == made.transfer.id
    with pytest.raises(errors.ExternalIdConflict):
        await transfer_usecases.start_transfer(shop.context, heir, request(amount_cents=101))
    shop.context.directory.forget_all()
    assert (await structs.replace(shop, house=heir).charge("charge-1", key="2")).id == charge.id
    assert (await charge_usecases.read_charge_by_id(shop.context, heir, charge.id)).id == charge.id
    read = await transfer_usecases.read_transfer_by_external_id(shop.context, heir, "order-1")
    assert read.transfer.id == made.transfer.id
    assert await shop.live.fetch("select from transfer where direction = 'OUT' and external_id = 'order-1' offset 1") == []
    await check_books(shop.live)


async def test_the_former_one_receives_and_gives_back_of_its_own(shop: Shop) -> None:
    company = await make_company(shop)
    await shop.allow()
    charge = await structs.replace(shop, house=company).charge("charge-1", key="2")
    heir = await heir_of(shop, company)
    shop.pay(960, txid=charge.txid, key=own_key("2"))
    pix = await shop.receive(500, key=own_key("2"))
    assert await read_funds(shop.live, company) == (1460, 0)
    assert await read_funds(shop.live, heir) == (0, 0)
    refund = await structs.replace(shop, house=heir).give_back(pix, 200, external_id="refund-1")
    assert refund.holder_id == company.holder_id
    again = await structs.replace(shop, house=heir).give_back(pix, 200, external_id="refund-1")
    assert again.id == refund.id
    assert (await refund_usecases.read_refund_by_external_id(shop.context, heir, "refund-1")).id == refund.id
    await shop.move_orders()
    assert await read_funds(shop.live, company) == (1260, 0)
    await check_books(shop.live)


async def test_the_former_one_starts_nothing(shop: Shop) -> None:
    company = await make_company(shop)
    await shop.receive(1000, key=own_key("2"))
    await succeed(shop, company)
    with pytest.raises(errors.HolderBlocked, match="succeeded"):
        await transfer_usecases.start_transfer(shop.context, company, request())
    assert await read_funds(shop.live, company) == (1000, 0)


async def test_the_schema_uses_a_name_once_in_a_family(shop: Shop) -> None:
    company = await make_company(shop)
    charge = await structs.replace(shop, house=company).charge("charge-1", key="2")
    heir = await heir_of(shop, company)
    with pytest.raises(asyncpg.UniqueViolationError) as caught:
        await shop.live.execute_as_owner(
            "insert into charge (id, holder_id, external_id, fingerprint, txid, amount_cents, key, br_code, status, slot, "
            f"created_at, modified_at, expires_at) select id + 1, {heir.holder_id}, external_id, fingerprint, repeat('t', 32), "
            f"amount_cents, key, repeat('t', 32), status, slot, created_at, modified_at, expires_at from charge "
            f"where id = {charge.id}"
        )
    assert caught.value.constraint_name == "a_family_uses_a_name_once"


async def test_the_successors_webhooks_are_told_of_what_comes_to_the_former_one(shop: Shop) -> None:
    company = await make_company(shop)
    endpoint = await endpoint_usecases.create_endpoint(
        shop.context,
        company,
        EndpointRequest(url="https://shop.example/hook", event_types=["transfer.in.confirmed"], secret="s" * 40),
    )
    await heir_of(shop, company)
    await shop.receive(500, key=own_key("2"))
    rows = await shop.live.fetch("select endpoint_id, holder_id from delivery")
    assert [tuple(row) for row in rows] == [(endpoint.id, company.holder_id)]
    await check_books(shop.live)


async def test_the_successor_reads_receipts_and_deliveries_of_the_former_one(shop: Shop) -> None:
    company = await make_company(shop)
    wanted = EndpointRequest(url="https://shop.example/hook", event_types=["transfer.in.confirmed"], secret="s" * 40)
    await endpoint_usecases.create_endpoint(shop.context, company, wanted)
    heir = await heir_of(shop, company)
    pix = await shop.receive(500, key=own_key("2"))
    paid = (await transfer_usecases.read_transfer_by_end_to_end_id(shop.context, heir, pix.end_to_end_id)).transfer
    viewer = Viewer(holder_id=heir.holder_id, scopes=READING_SCOPES)
    assert (await read_receipt(shop.context, viewer, "transfer", paid.id)).amount_cents == 500
    told = await read_timeline(shop.context, viewer, "transfer", paid.id)
    assert (told.holder_id, len(told.facts.deliveries)) == (company.holder_id, 1)
    (delivery,) = told.facts.deliveries
    assert (await read_delivery_view(shop.context, viewer, delivery.id)).delivery.id == delivery.id
    others = Viewer(holder_id=shop.house.holder_id, scopes=READING_SCOPES)
    with pytest.raises(errors.NotFound):
        await read_receipt(shop.context, others, "transfer", paid.id)
    with pytest.raises(errors.NotFound):
        await read_delivery_view(shop.context, others, delivery.id)


async def test_the_audit_says_what_has_gone_over(shop: Shop) -> None:
    company = await make_company(shop)
    request = EndpointRequest(url="https://shop.example/hook", event_types=["transfer.in.confirmed"], secret="s" * 40)
    await endpoint_usecases.create_endpoint(shop.context, structs.replace(company, token_id="t"), request)
    await succeed(shop, company)
    async with as_owner(shop.live.database) as owner:
        rules = [rule for rule in AUDIT if rule.name.endswith("_as_audited")]
        assert [await look.ask(owner, rule, None, None) for rule in rules] == [[] for _ in rules]


async def test_who_succeeds_is_succeeded_and_all_are_one_family(shop: Shop) -> None:
    company = await make_company(shop)
    heir = await heir_of(shop, company)
    third = await account_usecases.add_account(
        as_operator(shop.live.context),
        shop.there.open,
        "outro",
        a_description(keys=["o@test.example"], receiving=Credential(client_id="o"), base_url="https://127.0.0.1:8107"),
        await make_owner(shop.live, "8"),
    )
    last = await succeed(shop, heir, "79", third.name)
    rows = await shop.live.fetch("select id, successor_id from holder where family_id is not null order by id")
    assert [tuple(row) for row in rows] == [
        (company.holder_id, last.heir.id),
        (heir.holder_id, last.heir.id),
        (last.heir.id, None),
    ]


async def test_a_printed_code_of_the_former_one_is_paid_by_book(live: Service, there: FakeInstitution) -> None:
    shop = await open_shop(live, there, options={"static_fallback": True})
    company = await make_company(shop)
    payer = await make_owner(live, "3")
    await move_holder(as_operator(live.context), payer, "loja")
    await shop.receive(5000, key=own_key("3"))
    there.answers = [NotSent(reason="no connection")]
    charge = await structs.replace(shop, house=company).charge("charge-1", key="2")
    heir = await heir_of(shop, company)
    code = QrCodeTransferRequest(amount_cents=1000, br_code=charge.br_code)
    sent = await transfer_usecases.start_transfer(shop.context, structs.replace(shop.house, holder_id=payer), code)
    assert sent.transfer.status == "CONFIRMED"
    assert (await charge_usecases.read_charge_by_id(shop.context, heir, charge.id)).status == "APPROVED"
    assert await read_funds(live, company) == (1000, 0)
    await check_books(live)


async def test_the_successor_changes_and_reads_charges_of_the_former_one(shop: Shop) -> None:
    company = await make_company(shop)
    txids = ["A" * 26, "B" * 26]
    contents = ChargeContents(lifetime_s=3600, amount_cents=1000, key=own_key("2"))
    for txid in txids:
        await standard_usecases.put_charge(shop.context, company, txid, contents)
    heir = await heir_of(shop, company)
    await shop.receive(1000, txid=txids[0], key=own_key("2"))
    paid = await standard_usecases.read_charge(shop.context, heir, txids[0])
    assert [pix.txid for pix in (await find_pix(shop.context, [paid])).values()] == [txids[0]]
    change = ContentsChange(amount_cents=2000)
    revised = await standard_usecases.patch_charge(shop.context, heir, txids[1], change)
    assert (revised.charge.holder_id, shop.there.charges[txids[1]].amount_cents) == (company.holder_id, 2000)
    await standard_usecases.patch_charge(shop.context, heir, txids[1], ContentsChange(), removes=True)
    await check_books(shop.live)


async def test_what_the_former_one_was_told_goes_again_to_the_successors_endpoint(shop: Shop) -> None:
    company = await make_company(shop)
    wanted = EndpointRequest(url="https://shop.example/hook", event_types=["transfer.in.confirmed"], secret="s" * 40)
    endpoint = await endpoint_usecases.create_endpoint(shop.context, company, wanted)
    await shop.receive(500, key=own_key("2"))
    heir = await heir_of(shop, company)
    await shop.receive(500, key=own_key("2"))
    for row in await shop.live.fetch("select id from delivery"):
        assert (await redelivery_usecases.redeliver(shop.context, heir, row["id"])).status == "pending"
        with pytest.raises(errors.NotFound):
            await redelivery_usecases.redeliver(shop.context, shop.house, row["id"])
    await shop.live.execute_as_owner("update delivery set status = 'delivered', attempts_count = 1, due_at = null")
    now, day = shop.live.clock.now(), timedelta(days=1)
    assert await redelivery_usecases.redeliver_events(shop.context, heir, endpoint.id, now - day, now + day) == 2


async def test_the_webhook_of_a_key_lists_and_sends_again_what_came_to_either(shop: Shop) -> None:
    company = await make_company(shop)
    await key_webhook.set_webhook(shop.context, company, own_key("2"), "https://shop.example/hook")
    first = await shop.receive(500, key=own_key("2"))
    heir = await heir_of(shop, company)
    shop.context.directory.forget_all()
    (banco,) = [each for each in await shop.context.port(INSTITUTIONS).list_all() if each.name == "banco"]
    shop.there.received.clear()
    over_banco = structs.replace(shop, account=banco, house=heir)
    second = over_banco.pay(700, key=own_key("2"))
    await over_banco.read()
    page = await key_webhook.list_deliveries(shop.context, heir, own_key("2"), None, Span())
    assert [each.end_to_end_id for each in page.items] == [second.end_to_end_id, first.end_to_end_id]
    for each in page.items:
        again = await key_webhook.redeliver(shop.context, heir, own_key("2"), each.id)
        assert again.end_to_end_id == each.end_to_end_id
    names = [first.end_to_end_id, second.end_to_end_id]
    since = shop.live.clock.now() - timedelta(days=1)
    assert await key_webhook.redeliver_notices(shop.context, heir, names, "IN", ["transfer.in.confirmed"], since) == 2
    await check_books(shop.live)


async def test_an_operator_who_blocks_either_of_them_stops_refunds_of_the_former_one(shop: Shop) -> None:
    company = await make_company(shop)
    await shop.allow()
    pix = await shop.receive(500, key=own_key("2"))
    heir = await heir_of(shop, company)
    operator, of_heir = as_operator(shop.live.context), structs.replace(shop, house=heir)
    blocks = [(heir, HolderChanges(may_withdraw=False)), (company, HolderChanges(may_withdraw=False))]
    for blocked, change in [*blocks, (company, HolderChanges(is_disabled=True))]:
        await holder_usecases.set_holder(operator, blocked.holder_id, change)
        with pytest.raises(errors.HolderBlocked):
            await of_heir.give_back(pix, 100)
        undo = HolderChanges(may_withdraw=True, is_disabled=False)
        await holder_usecases.set_holder(operator, blocked.holder_id, undo)
    refund = await of_heir.give_back(pix, 100)
    assert refund.holder_id == company.holder_id
    # Judged again when it leaves.
    for change in (HolderChanges(may_withdraw=False), HolderChanges(is_disabled=True)):
        await holder_usecases.set_holder(operator, heir.holder_id, change)
        await shop.move_orders(seconds=10)
        assert shop.there.calls == []
        await holder_usecases.set_holder(operator, heir.holder_id, undo)
    await shop.move_orders(seconds=10)
    assert (await refund_usecases.read_refund_by_id(shop.context, company, refund.id)).status == "RETURNED"


async def test_a_token_that_has_not_ended_yet_makes_no_endpoint_of_the_former_one(shop: Shop) -> None:
    company = await make_company(shop)
    await succeed(shop, company)
    wanted = EndpointRequest(url="https://shop.example/hook", event_types=["transfer.in.confirmed"], secret="s" * 40)
    with pytest.raises(errors.HolderBlocked, match="new token"):
        await endpoint_usecases.create_endpoint(shop.context, company, wanted)


async def test_no_client_or_key_is_made_of_the_former_one(shop: Shop) -> None:
    company = await make_company(shop)
    heir = await heir_of(shop, company)
    with pytest.raises(errors.BadRequest, match=f"name holder {heir.holder_id}"):
        await access_usecases.create_client(as_operator(shop.live.context), company.holder_id, "Shop", list(SCOPES))
    with pytest.raises(errors.BadRequest, match=f"name holder {heir.holder_id}"):
        await holder_usecases.add_pix_key(as_operator(shop.live.context), company.holder_id, "EVP", None)


FORCED = "alter table holder disable trigger keep_account; {}; alter table holder enable trigger keep_account"


async def make_tenant(shop: Shop, number: str = "2", on: str | None = "loja") -> Caller:
    holder_id = await make_owner(shop.live, number)
    if on is not None:
        await move_holder(as_operator(shop.live.context), holder_id, on)
    return structs.replace(shop.house, holder_id=holder_id)


async def force(shop: Shop, holder_id: int, account_id: int) -> None:
    """Move a holder as older programs did."""
    await shop.live.execute_as_owner(FORCED.format(f"update holder set institution_id = {account_id} where id = {holder_id}"))


async def send(shop: Shop, caller: Caller, key: str, amount_cents: int = 100) -> str:
    request = KeyTransferRequest(amount_cents=amount_cents, key=key, key_type="EMAIL")
    return (await transfer_usecases.start_transfer(shop.context, caller, request)).transfer.status


async def test_who_has_ever_had_money_stays(shop: Shop) -> None:
    banco, tenant = await add_banco(shop), await make_tenant(shop)
    await shop.receive(900, key=own_key("2"))
    assert await send(shop, tenant, own_key("1"), 900) == "CONFIRMED"
    assert await read_funds(shop.live, tenant) == (0, 0)
    with pytest.raises(errors.BadRequest, match=r"it has had money there.*holder succeed"):
        await move_holder(as_operator(shop.live.context), tenant.holder_id, "banco")
    with pytest.raises(asyncpg.IntegrityConstraintViolationError) as caught:
        await shop.live.execute_as_owner(f"update holder set institution_id = {banco.id} where id = {tenant.holder_id}")
    assert caught.value.constraint_name == "a_holder_stays_on_its_account"


async def test_who_has_made_a_charge_stays(shop: Shop) -> None:
    await add_banco(shop)
    tenant = await make_tenant(shop)
    await structs.replace(shop, house=tenant).charge(key="2")
    shop.live.clock.advance(days=400)
    await shop.live.execute_as_owner("update charge set status = 'EXPIRED'")
    with pytest.raises(errors.BadRequest, match="it has made charges there"):
        await move_holder(as_operator(shop.live.context), tenant.holder_id, "banco")


async def test_who_has_never_had_anything_may_be_put_elsewhere_and_every_process_learns_it(shop: Shop) -> None:
    await add_banco(shop)
    tenant = await make_tenant(shop)
    before = await shop.live.fetch("select revision from access_revision")
    await move_holder(as_operator(shop.live.context), tenant.holder_id, "banco")
    assert await shop.live.fetch("select revision from access_revision") != before


async def test_a_charge_that_is_made_meanwhile_and_the_change_never_wait_for_each_other(shop: Shop) -> None:
    await add_banco(shop)
    operator = as_operator(shop.live.context)
    for number in map(str, range(20, 40)):
        tenant = await make_tenant(shop, number)
        making = structs.replace(shop, house=tenant).charge(key=number)
        moving = move_holder(operator, tenant.holder_id, "banco")
        outcomes = await asyncio.gather(making, moving, return_exceptions=True)
        assert not any(isinstance(one, asyncpg.PostgresError) for one in outcomes), outcomes
    await check_books(shop.live)


async def test_a_payee_put_on_the_account_since_it_was_read_is_paid_by_book(shop: Shop) -> None:
    await shop.receive(1000)
    tenant = await make_tenant(shop, on=None)
    assert (await shop.context.directory.read_account(tenant.holder_id)).institution_id is None
    await move_holder(as_operator(shop.live.context), tenant.holder_id, "loja")
    assert await send(shop, shop.house, own_key("2")) == "CONFIRMED"
    await check_books(shop.live)


async def test_nothing_goes_by_book_to_a_payee_put_elsewhere_since_it_was_read(shop: Shop) -> None:
    await add_banco(shop)
    await shop.receive(1000)
    tenant = await make_tenant(shop)
    party = (await shop.context.directory.read_account(tenant.holder_id)).party
    await move_holder(as_operator(shop.live.context), tenant.holder_id, "banco")
    request = AccountTransferRequest(amount_cents=307, credit_party=party)
    with pytest.raises(errors.ServiceUnavailable, match="between two accounts"):
        await transfer_usecases.start_transfer(shop.context, shop.house, request)
    assert await read_funds(shop.live, shop.house) == (1000, 0)
    await check_books(shop.live)


async def test_a_printed_code_of_a_moved_holder_pays_the_house(live: Service, there: FakeInstitution) -> None:
    shop = await open_shop(live, there, options={"static_fallback": True})
    banco, tenant = await add_banco(shop), await make_tenant(shop)
    shop.there.answers = [UnknownOutcome(reason="silent")]
    charge = await structs.replace(shop, house=tenant).charge(key="2")
    await force(shop, tenant.holder_id, banco.id)
    shop.pay(960, txid=parse_br_code(charge.br_code).txid)
    for _ in range(2):
        await shop.read()
    assert await read_funds(live, shop.house) == (960, 0)


async def test_what_the_schema_refuses_is_the_houses_and_a_case_with_its_sum(shop: Shop) -> None:
    tenant = await make_tenant(shop)
    await shop.live.execute_as_owner(
        "create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no' using "
        "errcode = 'integrity_constraint_violation', constraint = 'some_rule'; end $$; create trigger refuse before insert "
        f"on transfer for each row when (new.holder_id = {tenant.holder_id}) execute function refuse()"
    )
    shop.pay(960, key=own_key("2"))
    for _ in range(3):
        await shop.read()
    assert await read_funds(shop.live, shop.house) == (960, 0)
    (kept,) = await kept_usecases.list_kept(as_operator(shop.live.context), with_closed=False)
    assert (kept.kind, kept.reason, kept.seen_count) == ("credit", "cannot_be_recorded", 1)
    assert "some_rule" in kept.explanation
    await look_for_cases(shop.context)
    (case,) = await list_cases(shop.context)
    assert (case.case.kind, case.case.amount_cents) == ("report", 960)
    await check_books(shop.live)
