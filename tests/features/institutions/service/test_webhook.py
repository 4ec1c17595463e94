"""Our webhook is registered at an institution only if no other is replaced, and never by guessing."""

from typing import Any

import pytest
from msgspec import structs

from pixconnect.features.identity.service import secret_key as secret_key_usecases
from pixconnect.features.institutions.rules.institution import InstitutionTraits, Webhook
from pixconnect.features.institutions.rules.pending_call import digest_secret
from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.features.institutions.service import webhook as webhook_usecases
from pixconnect.features.institutions.service.webhook import RegisteredWebhooks
from pixconnect.features.institutions.tables import webhook as webhook_store
from pixconnect.kernel.flows import audit
from pixconnect.platform.base import errors
from support.account_shop import Shop
from support.operators import as_operator
from support.postgres import Addresses, execute_as_owner

KEY = "loja@test.example"
THEIRS = "https://erp.example/hooks"


def operator_of(shop: Shop) -> Any:
    operator = as_operator(shop.context)
    return structs.replace(operator, policy=structs.replace(operator.policy, callback_base_url="https://pay.example"))


async def register(shop: Shop, **changes: Any) -> RegisteredWebhooks:
    return await webhook_usecases.set_webhooks(operator_of(shop), shop.there.open, "loja", **changes)


async def restore(shop: Shop) -> RegisteredWebhooks:
    return await webhook_usecases.restore_webhooks(operator_of(shop), shop.there.open, "loja")


async def read(shop: Shop) -> RegisteredWebhooks:
    return await webhook_usecases.read_webhooks(operator_of(shop), shop.there.open, "loja")


async def read_verbs(shop: Shop) -> list[str]:
    entries = await audit.list_entries(operator_of(shop), count_max=50)
    return [each.verb for each in entries if each.verb.startswith("institution webhook ")]


async def test_ours_is_registered_once_and_shown_again(shop: Shop) -> None:
    assert [(each.key, each.whose) for each in (await read(shop)).found] == [(KEY, None)]
    done = await register(shop)
    assert (done.whose, done.address) == ("ours", shop.there.webhooks[0].url)
    assert done.address is not None
    assert done.address.startswith("https://pay.example/institutions/loja/")
    callback = await webhook_store.find(shop.context.pool, shop.account.id)
    assert callback is not None
    assert callback.digest == digest_secret(done.address.rpartition("/")[2])
    assert await register(shop) == done
    assert shop.there.calls.count(f"webhook {KEY}") == 1, "what is there already is not sent again"
    assert await read_verbs(shop) == ["institution webhook set"] * 2


async def test_what_is_not_ours_is_kept_before_it_is_replaced_and_put_back(shop: Shop) -> None:
    shop.there.webhooks = [Webhook(key=KEY, url=THEIRS)]
    with pytest.raises(errors.BadRequest, match="--replace"):
        await register(shop)
    assert shop.there.webhooks[0].url == THEIRS
    assert await read_verbs(shop) == []
    done = await register(shop, replaces=True)
    assert (done.whose, [each.url for each in done.kept]) == ("ours", [THEIRS])
    after = await restore(shop)
    assert ([each.url for each in after.found], list(after.kept)) == ([THEIRS], [])
    assert (await restore(shop)).found == after.found, "nothing of ours is there any more"


async def test_ours_goes_where_nothing_stood_before(shop: Shop) -> None:
    await register(shop)
    assert [each.url for each in (await restore(shop)).found] == [None]


async def test_a_new_secret_takes_the_place_of_the_one_before(shop: Shop) -> None:
    before = await register(shop)
    after = await register(shop, has_new_secret=True)
    assert before.address != after.address
    assert [each.url for each in shop.there.webhooks] == [after.address]


async def test_a_lost_answer_is_read_again(shop: Shop) -> None:
    shop.there.loses_answers = True
    assert (await register(shop)).whose == "ours"
    assert [each.url for each in (await restore(shop)).found] == [None]


async def test_what_was_not_done_is_told_and_goes_on_with_the_same_secret(shop: Shop) -> None:
    shop.there.is_reachable = False
    with pytest.raises(errors.ServiceUnavailable):
        await register(shop)
    assert await webhook_store.find(shop.context.pool, shop.account.id) is None, "nobody was asked"


async def test_another_installation_is_told_from_a_strange_program(shop: Shop) -> None:
    shop.there.webhooks = [Webhook(key=KEY, url="https://other.example/institutions/loja/abc")]
    (judged,) = webhook_usecases.judge_webhooks(await read(shop))
    assert (judged.is_given, "another installation" in judged.explanation) == (False, True)


async def test_where_an_account_has_any_number_ours_stands_beside_theirs(shop: Shop) -> None:
    shop.there.traits = InstitutionTraits(has_webhook_per_key=False)
    shop.there.webhooks = [Webhook(key=None, url=THEIRS)]
    done = await register(shop)
    again = await register(shop, has_new_secret=True)
    assert [each.url for each in shop.there.webhooks] == [THEIRS, again.address]
    assert (done.whose, again.whose) == ("ours", "ours")
    await restore(shop)
    assert [each.url for each in shop.there.webhooks] == [THEIRS]


async def test_an_address_that_no_institution_calls_is_refused_before_anything_is_kept(shop: Shop) -> None:
    account = structs.replace(shop.account, environment="production")
    with pytest.raises(errors.BadRequest, match="PIXCONNECT_CALLBACK_BASE_URL"):
        webhook_usecases.check_address("http://pay.example/institutions/loja/x", account)
    with pytest.raises(errors.BadRequest, match="200"):
        webhook_usecases.check_address("https://pay.example/" + "x" * 200, account)


async def test_the_secret_is_sealed_again_with_the_others(shop: Shop) -> None:
    done = await register(shop)
    await secret_key_usecases.reseal(operator_of(shop))
    assert (await read(shop)).address == done.address


async def test_an_account_that_is_used_keeps_its_webhook(shop: Shop) -> None:
    await register(shop)
    with pytest.raises(errors.BadRequest, match="cannot be removed"):
        await webhook_usecases.withdraw_webhooks(operator_of(shop), shop.there.open, "loja")
    assert len(shop.there.webhooks) == 1
    assert (await account_usecases.read_account(operator_of(shop), "loja")).account.state == "active"


async def test_a_key_without_a_webhook_cannot_pay(shop: Shop, database: Addresses) -> None:
    async def check() -> None:
        await webhook_usecases.check_keys_pay(operator_of(shop), shop.there.open, "loja")

    shop.there.webhooks = []
    await check()
    await execute_as_owner(database, "update institution_account set kind = 'efi'")
    with pytest.raises(errors.BadRequest, match=f"keys: {KEY} cannot pay"):
        await check()
    shop.there.webhooks = [Webhook(key=KEY, url=THEIRS)]
    await check()
