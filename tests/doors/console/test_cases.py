"""Open cases in the console, with a note of an operator, and acts on them."""

import asyncpg
import pytest

from pixconnect.features.cases.service import case as case_usecases
from pixconnect.features.cases.service.pattern import propose_memory
from pixconnect.features.institutions.rules.institution import InstitutionTraits
from pixconnect.features.institutions.service import statement as statement_usecases
from pixconnect.platform.base import errors
from support.account_shop import begin_in_july, make_owner, open_shop
from support.case_orders import open_case_of_order
from support.console import open_console, sign_in, sign_in_client
from support.fake_institution import FakeInstitution
from support.operators import as_operator
from support.proposals import confirm_waiting
from support.service import Service
from support.statement_files import make_ofx, make_ofx_line

PATH = "/audit/cases"


async def test_cases_are_shown_to_operators_with_what_is_known(live: Service) -> None:
    holder_id = await make_owner(live)
    async with open_console(live) as console:
        operator = console.nobody.of(await sign_in(console, "reader"))
        assert "No case is open" in (await operator.get(PATH)).content.decode()
        assert PATH in (await operator.get("/audit")).content.decode()
        (row,) = await live.fetch(
            "insert into kept_case (kind, name, amount_cents, facts, since)"
            " values ('rail', 'position', -500, 'the rail says 1', now()) returning id"
        )
        await case_usecases.note_case(as_operator(live.context, "ana"), row["id"], "asked the bank")
        assert f"{PATH}/{row['id']}" in (await operator.get(PATH)).content.decode()
        one = await operator.get(f"{PATH}/{row['id']}")
        for words in ("The rail and the books differ", "the rail says 1", "ana", "asked the bank", "5,00"):
            assert words in one.content.decode()
        in_portuguese = await operator.get(f"{PATH}/{row['id']}", **{"accept-language": "pt-BR"})
        assert "A rede e os livros divergem" in in_portuguese.content.decode()
        assert [(await operator.get(f"{PATH}/{name}")).status for name in ("x", "99")] == [404, 404]
        holder = console.nobody.of(await sign_in_client(console, holder_id, "ledger.read"))
        assert [(await holder.get(path)).status for path in (PATH, f"{PATH}/{row['id']}")] == [403, 403]


async def test_a_case_is_noted_adjusted_by_two_and_closed(live: Service) -> None:
    shop = await open_shop(live, FakeInstitution(live.clock))
    values = f"'day', {shop.account.id}, {shop.house.holder_id}, '2026-07-01', 300, 'a difference', now()"
    (row,) = await live.fetch(
        "insert into kept_case (kind, institution_id, holder_id, name, amount_cents, facts, since)"
        f" values ({values}) returning id"
    )
    path = f"{PATH}/{row['id']}"
    async with open_console(live) as console:
        ana = console.nobody.of(await sign_in(console, "operator", "ana"))
        assert (await ana.post(f"{path}/note", {"note": "asked the bank"})).status == 303
        for fields, words in (
            ({"kind": "guess"}, "kind: must be one of bank_error"),
            ({"kind": "found", "amount": "3,01"}, "amount: must be from R$\u00a00,01 to the R$\u00a03,00"),
            ({"kind": "found", "amount": ">=1,00"}, "Write one amount"),
            ({"kind": "found", "whose": "x"}, "whose: must be an id"),
        ):
            refused = await ana.post(f"{path}/adjust", fields)
            assert (refused.status, words in refused.content.decode()) == (400, True), refused
        assert (await ana.post(f"{path}/adjust", {"kind": "found", "amount": "1,00"})).status == 303
        page = (await ana.get(path)).content.decode()
        for words in ("asked the bank", "console ana wants", "R$\u00a01,00", "pixconnect proposal confirm"):
            assert words in page
        # She is the same person on the command line.
        with pytest.raises(errors.Forbidden, match="another operator confirms"):
            await confirm_waiting(as_operator(live.context, "ana"), live.context, "loja")
        await confirm_waiting(as_operator(live.context, "bia"), live.context, "loja")
        assert "console ana, bia" in (await ana.get(path)).content.decode()
        assert (await ana.post(f"{path}/close", {"reason": "the rest is the bank's"})).status == 303
        page = (await ana.get(path)).content.decode()
        assert ("An operator closed it" in page, f"{path}/close" in page) == (True, False)
        assert (await ana.post(f"{path}/close", {"reason": "again"})).status == 404
        assert [verb for verb, _ in await console.audited()][-4:] == [
            "case note",
            "case adjust",
            "proposal confirm",
            "case close",
        ]


async def test_readers_and_holders_change_no_case_and_pages_propose_nothing_else(live: Service) -> None:
    shop = await open_shop(live, FakeInstitution(live.clock))
    (row,) = await live.fetch(
        "insert into kept_case (kind, name, amount_cents, facts, since)"
        " values ('rail', 'position', -500, 'the rail says 1', now()) returning id"
    )
    async with open_console(live) as console:
        reader = console.nobody.of(await sign_in(console, "reader"))
        holder = console.nobody.of(await sign_in_client(console, shop.house.holder_id))
        ana = console.nobody.of(await sign_in(console, "operator", "ana"))
        acts = {"note": "note", "close": "reason", "adjust": "kind"}
        for act, field in acts.items():
            path = f"{PATH}/{row['id']}/{act}"
            assert path not in (await reader.get(f"{PATH}/{row['id']}")).content.decode()
            assert [(await each.post(path, {field: "found"})).status for each in (reader, holder)] == [403, 403]
            assert (await ana.post(path, {field: "found", "csrf": "0" * 64})).status == 403
        assert "case" not in {verb.split()[0] for verb, _ in await console.audited()}
        assert "is not adjusted" in (await ana.post(f"{PATH}/{row['id']}/adjust", {"kind": "found"})).content.decode()
        # With a stolen console one can propose adjustments, but neither close an account nor raise its allowance.
        for act in ("close", "allow"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await console.operator.pool.execute(
                    "insert into proposal (institution_id, act, contents, proposed_by, proposed_at,"
                    f" confirmable_at) values ({shop.account.id}, '{act}', '{{}}', 'ana', now(), now())"
                )
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await console.operator.pool.execute("update proposal set confirmed_by = 'bia'")


async def test_operators_answer_about_lines_and_pages_confirm_none(live: Service) -> None:
    await begin_in_july(live, FakeInstitution(live.clock))
    lines = [make_ofx_line(item_id=name, at="20260701", amount="50.00", memo=f"SALDO {name}") for name in ("S1", "S2")]
    lines.append(make_ofx_line(item_id="T1", at="20260701", amount="-1.00", memo="TARIFA"))
    content = make_ofx(*lines, first="20260701", last="20260701", opening="100.00", closing="149.00")
    await statement_usecases.record_file(as_operator(live.context), "loja", content, file_name="july.ofx")
    await live.execute_as_owner("update institution_item set waits = 'could_be_ours' where item_id = 'T1'")
    await case_usecases.look_for_cases(live.context)
    (case,) = [one.case for one in await case_usecases.list_cases(live.context, kind="day")]
    path = f"{PATH}/{case.id}"
    async with open_console(live) as console:
        ana = console.nobody.of(await sign_in(console, "operator", "ana"))
        reader = console.nobody.of(await sign_in(console, "reader"))
        page = (await ana.get(path)).content.decode()
        for words in ("july.ofx", 'value="counts S1"', 'value="aside S2"', "It is no money", 'name="holder_id"'):
            assert words in page
        assert f"{path}/answer" not in (await reader.get(path)).content.decode()
        assert (await reader.post(f"{path}/answer", {"line": "counts S1"})).status == 403
        for value, holder_id, words in (
            ("out S1", "", "out: is no answer about line S1"),
            ("ours S1=transfer:9", "", "ours: is no answer"),
            ("counts T1", "x", "holder_id: must be an id"),
            ("counts T1", "9", "holder_id: holder 9 does not lie on the account"),
        ):
            refused = await ana.post(f"{path}/answer", {"line": value, "holder_id": holder_id})
            assert (refused.status, words in refused.content.decode()) == (400, True), refused
        answers = {"line": ["counts S1", "aside S2", ""], "with_alike": "on"}
        assert (await ana.post(f"{path}/answer", answers)).status == 303
        assert "console ana has answered about lines" in (await ana.get(path)).content.decode()
        await confirm_waiting(as_operator(live.context, "bia"), live.context, "loja")
        rows = await live.fetch("select item_id, joined_kind, waits from institution_item where item_id < 'T' order by 1")
        assert [tuple(row) for row in rows] == [("S1", "movement", None), ("S2", None, "no_money")]
        assert f"{path}/answer" not in (await ana.get(path)).content.decode()
        await _remember(live)
        page = (await reader.get("/days")).content.decode()
        assert ("saldo s#" in page, "remembered since" in page, "/forget" in page) == (True, True, False)
        forget = "/days/loja/patterns/1/forget"
        assert forget in (await ana.get("/days")).content.decode()
        assert [(await each.post(forget, {})).status for each in (reader, ana, ana)] == [403, 303, 404]
        assert "saldo s#" not in (await ana.get("/days")).content.decode()
        # What an answer has set aside is taken back by two as well.
        day = "/days/loja/2026-07-01"
        page = (await ana.get(day)).content.decode()
        assert ('value="S2"' in page, 'value="S1"' in page) == (True, True)
        assert f"{day}/separate" not in (await reader.get(day)).content.decode()
        statuses = [(await each.post(f"{day}/separate", {"line": "S2"})).status for each in (reader, ana)]
        assert (statuses, (await ana.post(f"{day}/separate", {"line": "S9"})).status) == ([403, 303], 400)
        await confirm_waiting(as_operator(live.context, "bia"), live.context, "loja")
        rows = await live.fetch("select waits from institution_item where item_id = 'S2'")
        assert [row["waits"] for row in rows] == ["perhaps_balance"]


async def _remember(live: Service) -> None:
    await live.execute_as_owner("""
        insert into line_answer (institution_id, item_id, reason, answer, proposal_id, answered_at)
        select institution_id, item_id, reason, answer, proposal_id, answered_at - make_interval(days => days)
        from line_answer cross join (values (91), (45)) as earlier (days) where answer = 'aside'
    """)
    await propose_memory(as_operator(live.context, "ana"), "loja", "S2")
    await confirm_waiting(as_operator(live.context, "bia"), live.context, "loja")


async def test_in_a_page_a_changed_line_takes_the_place_of_the_first_one(live: Service) -> None:
    shop = await begin_in_july(live, FakeInstitution(live.clock))
    for amount, closing in (("-1.00", "99.00"), ("-30.00", "70.00")):
        line = make_ofx_line(item_id="F1", at="20260701", amount=amount, memo="TARIFA")
        content = make_ofx(line, first="20260701", last="20260701", opening="100.00", closing=closing)
        await statement_usecases.record_file(as_operator(live.context), "loja", content)
        await statement_usecases.settle_items(live.context, shop.account)
    await case_usecases.look_for_cases(live.context)
    (case,) = [one.case for one in await case_usecases.list_cases(live.context, kind="day")]
    path = f"{PATH}/{case.id}"
    async with open_console(live) as console:
        ana = console.nobody.of(await sign_in(console, "operator", "ana"))
        page = (await ana.get(path)).content.decode()
        for words in ('value="replace F1~20260701.2"', "reserved: R$\u00a030,00"):
            assert words in page
        assert (await ana.post(f"{path}/answer", {"line": "replace F1~20260701.2"})).status == 303
        await confirm_waiting(as_operator(live.context, "bia"), live.context, "loja")
    rows = await live.fetch("select direction, amount_cents from movement where kind <> 'opening_balance'")
    assert sorted((row["direction"], row["amount_cents"]) for row in rows) == [("IN", 100), ("OUT", 100), ("OUT", 3000)]


async def test_operators_say_how_an_order_ended_and_pages_end_none(live: Service) -> None:
    shop = await open_shop(live, FakeInstitution(live.clock, InstitutionTraits(sends=("KEY",))))
    case_id = await open_case_of_order(shop)
    path = f"{PATH}/{case_id}"
    letter = {"claim": "never", "evidence_name": "letter.pdf", "evidence_size": "1200", "evidence_digest": "AB" * 32}
    async with open_console(live) as console:
        ana = console.nobody.of(await sign_in(console, "operator", "ana"))
        reader = console.nobody.of(await sign_in(console, "reader"))
        assert (await reader.post(f"{path}/end", letter)).status == 403
        for fields, words in (
            ({"claim": "guess"}, "claim: must be one of settled, never"),
            ({"evidence_size": "1.5"}, "must have 1 to 1048576 octets"),
            ({"evidence_size": "9" * 5000}, "must have 1 to 1048576 octets"),
            ({"evidence_digest": "ab"}, "its SHA-256 must be 64"),
        ):
            refused = await ana.post(f"{path}/end", letter | fields)
            assert (refused.status, words in refused.content.decode()) == (400, True), refused
        page = (await ana.get(path)).content.decode()
        assert (f"{path}/end" in page, f"{path}/close" in page) == (True, False)
        assert (await ana.post(f"{path}/end", letter)).status == 303
        assert "console ana proposed an outcome: It was not sent" in (await ana.get(path)).content.decode()
        with pytest.raises(errors.Forbidden, match="another operator confirms"):
            await confirm_waiting(as_operator(live.context, "ana"), live.context, "loja")
        await confirm_waiting(as_operator(live.context, "bia"), live.context, "loja")
        page = (await ana.get(path)).content.decode()
        for words in ("Two operators recorded the outcome of its order", "console ana, bia", "letter.pdf", "ab" * 32):
            assert words in page
        assert f"{path}/end" not in page
