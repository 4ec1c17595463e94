"""Who asks, in two cells: each proves its own tokens and clients, and whoever serves both finds out whose they are."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from msgspec import Struct, structs

from pixconnect.domain.frame import cell, errors
from pixconnect.domain.identity.access import AUDIENCE, SCOPES, IssuedClient
from pixconnect.foundation import jose
from pixconnect.usecases.frame.cells import ByCell, UnreachableCells
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.identity import access as access_usecases
from pixconnect.usecases.identity.cell_access import CellIssuer, CellKeys, CellVerifier
from pixconnect.usecases.identity.keyring import Keyring
from pixconnect.usecases.identity.token import TokenVerifier
from pixconnect.usecases.identity.token_issuer import TokenIssuer
from support.cells import NUMBER, add_cell
from support.identity import make_holder, open_context, start_keyring, token_request
from support.operators import as_operator
from support.postgres import Addresses
from support.service import FakeClock


class Side(Struct, frozen=True, kw_only=True):
    """One cell, and a client of a holder there."""

    context: Context
    keyring: Keyring
    verifier: TokenVerifier
    issuer: TokenIssuer
    client: IssuedClient
    holder_id: int

    def bearer(self, **claims: object) -> bytes:
        """A token that this cell signs, whatever it says."""
        now_s = int(self.context.clock.real_now().timestamp())
        said = jose.Claims(
            iss=self.context.policy.auth_url,
            aud=AUDIENCE,
            sub=self.client.client.client_id,
            holder_id=str(self.holder_id),
            scope="charge.read",
            iat=now_s,
            exp=now_s + 300,
            jti="1",
        )
        return b"Bearer " + jose.sign_token(self.keyring.token_key(), structs.replace(said, **claims)).encode()


class House(Struct, frozen=True, kw_only=True):
    home: Side
    there: Side
    away: UnreachableCells
    verifiers: ByCell[TokenVerifier]
    issuers: ByCell[TokenIssuer]
    keyrings: ByCell[Keyring]


async def _open_side(stack: AsyncExitStack, database: Addresses, clock: FakeClock, number: int) -> Side:
    context = await stack.enter_async_context(open_context(database, clock, cell=number))
    keyring = await start_keyring(context)
    holder = await make_holder(context, account_number=str(1000 + number))
    return Side(
        context=context,
        keyring=keyring,
        verifier=TokenVerifier(context, keyring, context.pool),
        issuer=TokenIssuer(context, keyring),
        client=await access_usecases.create_client(as_operator(context), holder.id, "a shop", SCOPES),
        holder_id=holder.id,
    )


@pytest.fixture
async def house(database: Addresses, other_database: Addresses) -> AsyncIterator[House]:
    await add_cell(database, other_database)
    async with AsyncExitStack() as stack:
        clock, away = FakeClock(), UnreachableCells()
        home = await _open_side(stack, database, clock, cell.HOME)
        there = await _open_side(stack, other_database, clock, NUMBER)
        opened = House(
            home=home,
            there=there,
            away=away,
            verifiers=ByCell(home.verifier, away),
            issuers=ByCell(home.issuer, away),
            keyrings=ByCell(home.keyring, away),
        )
        opened.verifiers.add(NUMBER, there.verifier)
        opened.issuers.add(NUMBER, there.issuer)
        opened.keyrings.add(NUMBER, there.keyring)
        yield opened


async def test_a_client_of_either_cell_gets_a_token_that_the_same_process_believes(house: House) -> None:
    issuer, verifier = CellIssuer(house.issuers), CellVerifier(house.verifiers)
    for side in (house.home, house.there):
        for _ in range(2):
            request = token_request(side.client.client.client_id, side.client.client_secret)
            authorization = b"Bearer " + (await issuer.login(request)).access_token.encode()
            caller = await verifier.verify(authorization)
            assert caller.holder_id == side.holder_id
            assert verifier.recall(authorization) == caller
            assert verifier.recall_party(authorization) == side.holder_id


async def test_a_cell_cannot_sign_for_a_holder_of_another(house: House) -> None:
    verifier = CellVerifier(house.verifiers)
    for signer, named in ((house.home, house.there), (house.there, house.home)):
        token = signer.bearer(holder_id=str(named.holder_id), sub=named.client.client.client_id)
        with pytest.raises(errors.Unauthorized, match="unknown key"):
            await verifier.verify(token)
        assert verifier.recall(token) is None


async def test_what_a_token_says_to_proxies_is_believed_by_nobody_and_needed_by_nobody(house: House) -> None:
    """Tokens of before do not say it, and what says something else is judged by its claims."""
    verifier, key = CellVerifier(house.verifiers), house.there.keyring.token_key()
    claims = jose.decode_base64url(house.there.bearer().split(b".")[1])
    for opening in (None, {"cell": "000"}, {"cell": "007"}, {"cell": "all of them"}):
        token = key.sign(claims, {"typ": jose.TOKEN_TYPE}, opening=opening)
        assert (await verifier.verify(b"Bearer " + token.encode())).holder_id == house.there.holder_id


async def test_an_unknown_client_and_a_wrong_secret_are_refused_alike(house: House) -> None:
    issuer = CellIssuer(house.issuers)
    tagged = cell.draw_tagged(house.home.context.entropy, 24, NUMBER)
    messages: set[str] = set()
    for client_id in ("nobody", tagged, house.there.client.client.client_id):
        with pytest.raises(errors.Unauthorized) as refused:
            await issuer.login(token_request(client_id, "wrong"))
        messages.add(str(refused.value))
    assert len(messages) == 1


async def test_a_client_whose_id_leads_elsewhere_is_found_all_the_same(house: House) -> None:
    chosen = "chosen-" + cell.draw_tagged(house.home.context.entropy, 12, cell.HOME)
    operator = as_operator(house.there.context)
    issued = await access_usecases.create_client(
        operator, house.there.holder_id, "an old one", SCOPES, client_id=chosen
    )
    token = await CellIssuer(house.issuers).login(token_request(chosen, issued.client_secret))
    authorization = b"Bearer " + token.access_token.encode()
    assert (await CellVerifier(house.verifiers).verify(authorization)).holder_id == house.there.holder_id


async def test_guesses_are_counted_in_the_cell_of_their_client(house: House) -> None:
    issuer = CellIssuer(house.issuers)
    for _ in range(house.there.context.policy.token_failures_max):
        with pytest.raises(errors.Unauthorized):
            await issuer.login(token_request(house.there.client.client.client_id, "wrong"))
    with pytest.raises(errors.RateLimited):
        await issuer.login(token_request(house.there.client.client.client_id, "wrong"))


async def test_whose_cell_is_away_is_asked_to_come_again_and_nobody_else(house: House) -> None:
    house.verifiers.remove(NUMBER, house.verifiers.at(NUMBER))
    house.issuers.remove(NUMBER, house.issuers.at(NUMBER))
    issuer, verifier = CellIssuer(house.issuers), CellVerifier(house.verifiers)
    with pytest.raises(errors.ServiceUnavailable):
        await verifier.verify(house.there.bearer())
    with pytest.raises(errors.ServiceUnavailable):
        await issuer.login(token_request(house.there.client.client.client_id, house.there.client.client_secret))
    token = await issuer.login(token_request(house.home.client.client.client_id, house.home.client.client_secret))
    assert (await verifier.verify(b"Bearer " + token.access_token.encode())).holder_id == house.home.holder_id


async def test_a_token_of_a_cell_that_does_not_exist_is_refused_once_somebody_has_looked_for_it(house: House) -> None:
    verifier = CellVerifier(house.verifiers)
    forged = house.there.bearer(holder_id=str(5 * cell.IDS_MAX + 1))
    with pytest.raises(errors.ServiceUnavailable):
        await verifier.verify(forged)
    house.away.begin_look()
    house.away.end_look([NUMBER])
    with pytest.raises(errors.Unauthorized):
        await verifier.verify(forged)


async def test_the_keys_of_both_are_published_as_one_set(house: House) -> None:
    keys = CellKeys(house.keyrings)
    await keys.reload_if_older()
    kids = {house.home.keyring.current_kid, house.there.keyring.current_kid}
    for published in (keys.key_set(), keys.certified_key_set(), keys.public_key_document()):
        assert {key["kid"] for key in published["keys"]} == kids  # type: ignore[union-attr]  a list of JWKs
    assert keys.public_key_document()["kid"] == house.home.keyring.current_kid


@pytest.mark.parametrize(
    "authorization", [b"Bearer a.b.c", b"Basic eA==", b"Bearer " + b"a" * 5000, b"Bearer \xff.\xff.\xff", b""]
)
async def test_what_is_no_token_is_refused_as_with_one_cell(house: House, authorization: bytes) -> None:
    with pytest.raises(errors.Unauthorized) as with_two:
        await CellVerifier(house.verifiers).verify(authorization)
    with pytest.raises(errors.Unauthorized) as with_one:
        await house.home.verifier.verify(authorization)
    assert str(with_two.value) == str(with_one.value)
