"""Findings of ``pixconnect verify`` in the console: the runs, and both figures and the remedy of each finding."""

from pixconnect.features.proof.service.verify import ProofRequest, verify
from support.account_shop import make_owner
from support.console import open_console, sign_in, sign_in_client
from support.postgres import Addresses
from support.service import Service
from support.verifier import open_book_reader

PATH = "/audit/proof"


async def test_runs_are_shown_with_what_they_found(live: Service, database: Addresses) -> None:
    holder_id = await make_owner(live)
    async with open_console(live) as console:
        operator = console.nobody.of(await sign_in(console, "reader"))
        assert "The books have not been verified yet" in (await operator.get(PATH)).content.decode()
        assert PATH in (await operator.get("/audit")).content.decode()
        await live.execute_without_guards("update statement_head set last_number = 7")
        async with open_book_reader(live, database) as reader:
            await verify(reader, ProofRequest(extent="whole", again_after_s=0), lambda *_: None)
        page = (await operator.get(PATH)).content.decode()
        for words in ("something is wrong", "balance_follows_last_entry", f"<code>{holder_id}</code>", "written by hand"):
            assert words in page
        # A session of the console counts as a started one.
        assert "session_was_begun" not in page
        in_portuguese = await operator.get(PATH, **{"accept-language": "pt-BR"})
        assert "há algo errado" in in_portuguese.content.decode()
        holder = console.nobody.of(await sign_in_client(console, holder_id, "ledger.read"))
        assert (await holder.get(PATH)).status == 403
