"""A holder's page, the list for choosing one, and a missing holder."""

from pixconnect.kernel.flows import holder as holder_usecases
from pixconnect.kernel.flows.holder import HolderChanges
from pixconnect.kernel.rules.access import Caller
from support.console import open_console, sign_in, sign_in_client
from support.operators import as_operator
from support.records import own_key
from support.service import Service, open_holder


async def test_all_that_is_a_holders_stands_on_its_page_and_is_for_operators(service: Service, caller: Caller) -> None:
    operator = as_operator(service.context)
    await holder_usecases.set_holder(operator, caller.holder_id, HolderChanges(day_limit_cents=123_45))
    holder = await holder_usecases.read_holder(operator, caller.holder_id)
    async with open_console(service) as console:
        session = await sign_in_client(console, caller.holder_id)
        own, reader = console.nobody.of(session), console.nobody.of(await sign_in(console, "reader"))
        page = await reader.get(f"/holders/{holder.id}")
        said = page.content.decode()
        for text in (holder.name, holder.tax_id, holder.account_number, own_key(), own.who.name, "R$\u00a0123,45", "no limit"):
            assert text in said, text
        for path in ("/holders", f"/holders/{holder.id}"):
            assert (await own.get(path)).status == 403
        # Its key leads there, for a holder's visitor only to its own.
        assert (await reader.get(f"/search?q={own_key()}")).headers["location"] == f"/holders/{holder.id}"
        assert f"/holders/{holder.id}" not in (await own.get(f"/search?q={own_key()}")).content.decode()
        assert holder.name in (await own.get("/")).content.decode()


async def test_a_holder_is_chosen_by_name_and_a_missing_one_is_said(service: Service, caller: Caller) -> None:
    for number in range(2, 4):
        await open_holder(service, account_number=str(number))
    holder = await holder_usecases.read_holder(as_operator(service.context), caller.holder_id)
    async with open_console(service) as console:
        reader = console.nobody.of(await sign_in(console, "reader"))
        listed = (await reader.get("/holders")).content.decode()
        assert listed.count('class="row-link"') == 3
        asked = (await reader.get(f"/holders?to=/ledger&name={holder.name[:4].upper()}")).content.decode()
        assert f'href="/ledger?holder={holder.id}"' in asked
        assert 'href="/holders/' in (await reader.get("/holders?to=//elsewhere.example")).content.decode()
        assert "name contains this" in (await reader.get("/holders?name=nobody-is-called-so")).content.decode()
        assert "/holders?to=%2Fledger" in (await reader.get("/ledger")).content.decode()
        assert holder.name in (await reader.get(f"/charges?holder={holder.id}")).content.decode()
        for path in ("/charges?holder=987654", "/?holder=987654", "/holders/987654"):
            missing = await reader.get(path)
            assert missing.status == 404
            assert "there is no holder 987654" in missing.content.decode()
