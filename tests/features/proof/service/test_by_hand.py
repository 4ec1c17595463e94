"""Changes by hand about an account at an institution are found, each alone, by exactly the named rules."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from pixconnect.features.institutions.day_checks import judge_closed_days
from pixconnect.features.institutions.rules.institution import InstitutionTraits
from pixconnect.features.institutions.service.succession import move_holder
from pixconnect.features.proof.service.verify import RULES
from pixconnect.features.proof.tables import look
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.rules.transfer import KeyTransferRequest
from support.account_shop import Shop, make_owner
from support.books import EVERYBODY, check_books
from support.damage import NEVER_RIGHT
from support.fake_institution import FakeInstitution
from support.operators import as_operator
from support.postgres import Addresses, as_owner
from support.records import own_key
from support.service import Service

SENT = "(select end_to_end_id from transfer where direction = 'OUT' and not is_book)"
RETURNED = "(select return_id from refund where flow = 'OUT')"
IN = "direction = 'IN' and amount_cents = 900"
STEP, LIES = "step_agrees_with_its_order", "money_lies_on_one_account"
BY_HAND = {
    "update institution_account set options = '{\"static_fallback\": true}'": {"account_is_as_audited"},
    "update institution_account set house_id = 2": {"account_is_as_audited"},
    "update institution_account set state = 'closed'": {"account_is_as_audited"},
    "update institution_allowance set transfers_day_cents = transfers_day_cents + 1": {"approval_is_audited"},
    "update institution_allowance set refunds_day_cents = 0": {"approval_is_audited"},
    "update institution_allowance set allowed_by = 'thief'": {"approval_is_audited"},
    "update institution_allowance set naming_key = sha256('thief')": {STEP},
    "delete from institution_allowance": {"approval_is_audited", STEP},
    "update holder set institution_id = null where id = 1": {"house_lies_on_its_account", LIES},
    "update holder set institution_id = null where id = 2": {LIES, "holder_is_as_audited"},
    f"update transfer set institution_id = null where {IN}": {LIES},
    f"update transfer set institution_id = 2 where {IN}": {LIES},
    "update transfer set institution_id = null where direction = 'OUT'": {LIES, STEP, "what_leaves_in_a_day_is_counted"},
    f"delete from rail_step where order_name = {SENT}": {STEP},
    f"delete from rail_step where order_name = {RETURNED}": {STEP},
    f"update rail_step set payee = 'thief@pix.example' where order_name = {SENT}": {STEP},
    f"update rail_step set amount_cents = 1 where order_name = {SENT}": {STEP},
    f"update rail_step set institution_id = 2 where order_name = {SENT}": {STEP},
    f"update rail_step set holder_id = 2 where order_name = {SENT}": {STEP, "step_has_its_order"},
    f"update rail_step set name_there = repeat('0', 32) where order_name = {SENT}": {STEP},
    f"update rail_step set name_there = null where order_name = {SENT}": {STEP},
    f"update rail_step set state = 'minted', outcome = null, called_at = null where order_name = {SENT}": {STEP},
    f"update rail_step set outcome = 'never', may_be_done = false where order_name = {RETURNED}": {STEP},
    f"update rail_step set original_end_to_end_id = repeat('E', 32) where order_name = {RETURNED}": {STEP},
}


@pytest.fixture
def there(live: Service) -> FakeInstitution:
    return FakeInstitution(live.clock, InstitutionTraits(sends=("KEY",)))


@pytest.fixture
async def owner(shop: Shop, database: Addresses) -> AsyncIterator[asyncpg.Connection]:
    """An account over which something has come, left, and been given back."""
    await shop.allow()
    await shop.allow_sending()
    pix = shop.pay(2000)
    await shop.receive(900)
    # By book: both sides lie on the account.
    sister = await make_owner(shop.live, "2")
    await move_holder(as_operator(shop.live.context), sister, shop.account.name)
    request = KeyTransferRequest(amount_cents=100, key=own_key("2"), key_type="EMAIL")
    await transfer_usecases.start_transfer(shop.context, shop.house, request)
    request = KeyTransferRequest(amount_cents=400, key="joana@pix.example", key_type="EMAIL")
    await transfer_usecases.start_transfer(shop.context, shop.house, request)
    await shop.give_back(pix, 300)
    await shop.move_orders()
    await check_books(shop.live)
    async with as_owner(database) as connection:
        await connection.execute("set session_replication_role = replica")
        yield connection


async def find_broken(owner: asyncpg.Connection, shop: Shop) -> set[str]:
    _, found = await judge_closed_days(owner, shop.live.clock.now())
    for rule in RULES:
        if rule.of in ("holders", "installation"):
            found += await look.ask(owner, rule, EVERYBODY if rule.of == "holders" else None, None)
    return {each.rule for each in found} - NEVER_RIGHT


async def test_each_change_by_hand_is_found_alone(owner: asyncpg.Connection, shop: Shop) -> None:
    assert await find_broken(owner, shop) == set()
    wrong = list[tuple[str, set[str]]]()
    for statement, rules in BY_HAND.items():
        changed = owner.transaction()
        await changed.start()
        assert not (await owner.execute(statement)).endswith(" 0"), statement
        if (found := await find_broken(owner, shop)) != rules:
            wrong.append((statement, found))
        await changed.rollback()
    assert wrong == []
