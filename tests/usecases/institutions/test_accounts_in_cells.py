"""In live mode two cells are two accounts: what one pays the other leaves at one institution and comes in at the other."""

from collections.abc import AsyncIterator

import pytest
from msgspec import Struct, structs

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.cell import HOME
from pixconnect.domain.institutions.account import Credential
from pixconnect.domain.money.transfer import AccountTransferRequest, KeyTransferRequest
from pixconnect.foundation.notifier import CALLBACK_CHANNEL
from pixconnect.foundation.pool import connect
from pixconnect.foundation.privileges import SERVICE_ROLE
from pixconnect.usecases.frame.cells import ByCell
from pixconnect.usecases.institutions import webhook as webhook_usecases
from pixconnect.usecases.institutions.callback import Callbacks, CellCallbacks
from pixconnect.usecases.money import transfer as transfer_usecases
from support.account_shop import Shop
from support.books import check_books
from support.cells import NUMBER
from support.live_cells import open_live_cells
from support.operators import as_operator
from support.postgres import Addresses
from support.service import read_funds
from support.waiting import until

LOJA, BANCO = "loja@test.example", "banco@test.example"


class Two(Struct, frozen=True):
    """An account in each of two cells, whose houses have their keys."""

    home: Shop
    second: Shop


@pytest.fixture
async def two(database: Addresses, other_database: Addresses) -> AsyncIterator[Two]:
    async with open_live_cells(database, other_database) as cells:
        banco = dict(receiving=Credential(client_id="branch"))
        yield Two(
            home=await cells.open_shop(HOME, "banco", BANCO, **banco),
            second=await cells.open_shop(NUMBER, "loja", LOJA),
        )


async def test_a_pix_to_a_key_of_another_cell_leaves_at_one_institution_and_comes_in_at_the_other(two: Two) -> None:
    for payer, payee, key in ((two.second, two.home, BANCO), (two.home, two.second, LOJA)):
        payer.pay(1000, key=payer.account.keys[0])
        await payer.read()
        before = await read_funds(payee.live, payee.house)
        request = KeyTransferRequest(amount_cents=700, key=key, key_type="EMAIL")
        sent = (await transfer_usecases.start_transfer(payer.context, payer.house, request)).transfer
        # Whose the key is only the institution finds out: nobody here has told, as of a key of anybody else.
        assert (sent.status, sent.counterparty.key, sent.counterparty.name) == ("PROCESSING", key, "-")
        await payer.move_orders()
        [out] = payer.there.sent.values()
        assert payer.there.paid_cents == 700
        assert await read_funds(payee.live, payee.house) == before, "nothing went from cell to cell"
        assert out.end_to_end_id is not None
        payee.pay(700, key=key, end_to_end_id=out.end_to_end_id)
        await payee.read()
        assert await read_funds(payee.live, payee.house) == (before[0] + 700, 0)
        [row] = await payer.live.fetch("select status, end_to_end_id from transfer where direction = 'OUT'")
        assert row["status"] == "CONFIRMED"
        await check_books(payer.live)
        await check_books(payee.live)


async def test_to_an_account_number_of_another_cell_nothing_is_sent(two: Two) -> None:
    two.second.pay(1000, key=LOJA)
    await two.second.read()
    payee = await two.home.context.directory.read_account(two.home.house.holder_id)
    request = AccountTransferRequest(amount_cents=100, credit_party=payee.party)
    with pytest.raises(errors.ServiceUnavailable, match="nothing is sent but to a key; nothing was done"):
        await transfer_usecases.start_transfer(two.second.context, two.second.house, request)
    assert await read_funds(two.second.live, two.second.house) == (1000, 0)


async def test_a_callback_reaches_the_account_of_a_second_cell(two: Two) -> None:
    operator = as_operator(two.second.context, home=two.home.context)
    operator = structs.replace(
        operator, policy=structs.replace(operator.policy, callback_base_url="https://pix.example")
    )
    address = (await webhook_usecases.set_webhooks(operator, two.second.there.open, "loja")).address
    assert address is not None
    heard = list[str]()
    listener = await connect(two.second.live.database.service_url, role=SERVICE_ROLE, schema="pixconnect", name="tests")
    await listener.add_listener(CALLBACK_CHANNEL, lambda *said: heard.append(str(said[-1])))
    callbacks = ByCell(Callbacks(two.home.context))
    callbacks.add(NUMBER, Callbacks(two.second.context))
    for secret in ("wrong", address.rpartition("/")[2]):
        await CellCallbacks(callbacks).take("loja", secret, b"{}", has_certificate=False)
    await until(lambda: bool(heard))
    await listener.close()
    assert heard == [f"{two.second.account.id} near"]


async def test_a_loss_of_one_cell_pauses_the_accounts_of_that_one(two: Two) -> None:
    await two.second.live.execute_as_owner(
        "insert into database_loss (reason, system_identifier, orders_count) values ('another timeline', 1, 0)"
    )
    states = [
        (await shop.live.fetch("select state from institution_account"))[0]["state"] for shop in (two.second, two.home)
    ]
    assert states == ["paused", "active"]
