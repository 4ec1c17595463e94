"""Clients: their creation, and the storage of their secrets."""

from collections.abc import AsyncIterator

import pytest

from pixconnect.features.identity.service import access
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules.access import SCOPES, IssuedClient
from pixconnect.platform.base import errors
from support import identity
from support.operators import as_operator
from support.postgres import Addresses, as_owner
from support.service import FakeClock


@pytest.fixture
async def context(database: Addresses) -> AsyncIterator[Context]:
    async with identity.open_context(database, FakeClock(monotonic_s=0.0)) as opened:
        yield opened


@pytest.fixture
async def issued(context: Context) -> IssuedClient:
    owner = await identity.make_holder(context)
    return await access.create_client(as_operator(context), owner.id, "shop", ["charge.write", "charge.read"])


async def test_the_secret_is_not_in_the_database(database: Addresses, context: Context, issued: IssuedClient) -> None:
    async with as_owner(database) as connection:
        row = str(await connection.fetchrow("select * from pixconnect.client"))
    assert issued.client_secret not in row
    assert issued.client_secret.encode().hex() not in row


async def test_a_client_has_an_unguessable_id_and_secret(context: Context, issued: IssuedClient) -> None:
    assert len(issued.client_secret) == 43
    assert await access.list_clients(as_operator(context), issued.client.holder_id) == [issued.client]


async def test_a_client_needs_a_holder_a_name_and_scopes(context: Context) -> None:
    owner = await identity.make_holder(context)
    with pytest.raises(errors.NotFound, match="holder 404"):
        await access.create_client(as_operator(context), 404, "shop", SCOPES)
    with pytest.raises(errors.BadRequest, match=r"^name: "):
        await access.create_client(as_operator(context), owner.id, "", SCOPES)
    with pytest.raises(errors.BadRequest, match=r"^scope: "):
        await access.create_client(as_operator(context), owner.id, "shop", ["everything"])


async def test_a_client_loses_its_tokens_with_a_scope(context: Context, issued: IssuedClient) -> None:
    operator, client_id = as_operator(context), issued.client.client_id
    wider = await access.set_scopes(operator, client_id, (), added=["cob.read", "charge.read"])
    assert (wider.scopes, wider.tokens_from) == (("charge.read", "charge.write", "cob.read"), None)
    same = await access.set_scopes(operator, client_id, ["cob.read", "charge.write"], added=["charge.read"])
    assert same == wider
    narrower = await access.set_scopes(operator, client_id, ["cob.read", "cob.write"])
    assert narrower.scopes == ("cob.read", "cob.write")
    assert narrower.tokens_from is not None
    for wrong in ([], ["everything"]):
        with pytest.raises(errors.BadRequest, match=r"^scope: "):
            await access.set_scopes(operator, client_id, wrong)
    with pytest.raises(errors.NotFound):
        await access.set_scopes(operator, "unknown", ["cob.read"])
    assert await access.list_clients(operator, issued.client.holder_id) == [narrower]


async def test_an_unknown_client_can_be_neither_rotated_nor_disabled(context: Context) -> None:
    with pytest.raises(errors.NotFound):
        await access.rotate_client(as_operator(context), "unknown")
    with pytest.raises(errors.NotFound):
        await access.disable_client(as_operator(context), "unknown")
