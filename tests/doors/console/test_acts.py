"""Each act in the console leaves one row of the audit where it was done, and none where it was refused."""

import re
from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec import Struct
from structlog.testing import capture_logs

from pixconnect.assembly import pages
from pixconnect.features.console_pages import days, sandbox
from pixconnect.features.institutions.service.inquiry import InquiryAnswer
from pixconnect.features.sandbox.service.sandbox import SANDBOX_CONTROL
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.context import Context, Operator, write_alone
from pixconnect.kernel.flows.holder import HolderChanges, set_holder
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.flows.refund import start_refund
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.refund import RefundRequest
from pixconnect.kernel.tables import audit as audit_store
from pixconnect.platform.base import errors
from pixconnect.platform.outgoing_text import LENGTH_MAX
from support.api import Answer
from support.console import HOST, Browser, InProcess, issue_client, open_console, sign_in, sign_in_as, sign_in_client
from support.operators import as_operator
from support.postgres import Addresses
from support.records import outside_party
from support.service import FakeReceivers, credit_report, infraction_report, make_charge, open_holder, open_service, send_out

_LONG_URL = "https://refused.example/" + "x" * 60_000


class _Receivers(FakeReceivers):
    async def check_url(self, url: str) -> None:
        if "refused" in url:
            raise errors.InvalidWebhookUrl(f"url: leads nowhere: {url}")


class _Control:
    """A network that accepts any rules."""

    async def call(self, what: Any, asked: Any) -> Any:
        return [] if asked is None else asked


@pytest.fixture
async def console(database: Addresses, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[InProcess]:
    async with open_service(database, receivers=_Receivers()) as service:
        context = service.context.with_port(SANDBOX_CONTROL, _Control())
        simulated = msgspec.structs.replace(service, context=context)
        monkeypatch.setattr(days, "ask_named", _ask)
        async with open_console(simulated) as opened:
            opened.console._paces._monotonic_s = lambda: 0.0
            yield opened


@pytest.fixture
async def caller(console: InProcess) -> Caller:
    return await open_holder(console.service)


async def _ask(_: Context, operator: Operator, name: str, asked: str) -> InquiryAnswer:
    """A sandbox has no account to ask at."""
    if not asked:
        raise errors.BadRequest("asked: must be an id")
    async with write_alone(operator.pool) as connection:
        await audit.record(operator, connection, "institution ask", f"institution {name}")
    charge: Any = SimpleNamespace(txid="a", status="active", amount_cents=100)
    return InquiryAnswer(account=charge, charge=charge, received=[], before={}, now={})


class _Deed:
    """Requests to the sandbox, which does them, refuses them, or gives no answer."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    async def __call__(self, *_: object) -> Any:
        if self.error is not None:
            raise self.error
        return SimpleNamespace(status="CONFIRMED")


class Act(Struct, frozen=True, kw_only=True):
    verb: str
    subject: str
    path: str
    fields: Mapping[str, str] = {}
    refused_path: str = ""
    refused_fields: Mapping[str, str] = {}
    leaves: int = 1
    is_operators: bool = False  # forbidden for a holder's visitor


async def _wait_for_operators(console: InProcess) -> list[int]:
    """Make two transfers that wait for an operator's approval, and return their ids."""
    payer = await open_holder(console.service, account_number="9009", funds_cents=1000)
    await set_holder(as_operator(console.service.context), payer.holder_id, HolderChanges(approve_new_payees=True))
    return [(await send_out(console.service, payer, 1)).id for _ in range(2)]


async def _list_acts(console: InProcess, browser: Browser, caller: Caller) -> list[Act]:
    """Each form of the console, in a possible order, with a refused one."""
    added = await browser.post("/endpoints", {"url": "https://shop.example/a"})
    assert added.status == 200
    charge = await make_charge(console.service, caller)
    [endpoint] = await console.service.fetch("select id from webhook_endpoint")
    [delivery] = await console.service.fetch("select id from delivery")
    [case] = await console.service.fetch(
        "insert into kept_case (kind, name, facts, since) values ('rail', 'position', 'it says 1', now()) returning id"
    )
    paid = credit_report(console.service, amount_cents=1_000)
    await receive_credit(console.service.context, paid)
    await take_reports(console.service.context, [infraction_report(console.service, paid.end_to_end_id)])
    [contested] = await console.service.fetch("select id, transfer_id from infraction")
    page = (await browser.get(f"/transfers/{contested['transfer_id']}")).content.decode()
    assert ("The payer contests this Pix" in page, 'id="refund"' in page) == (True, False)
    refundable = credit_report(console.service, amount_cents=1_000)
    await receive_credit(console.service.context, refundable)
    [received] = await console.service.fetch("select id from transfer where end_to_end_id = $1", refundable.end_to_end_id)
    approved, refused = await _wait_for_operators(console)
    approvals = "/audit/approvals"
    own, whose = f"/endpoints/{endpoint['id']}", f"endpoint {endpoint['id']}"
    of_holder = f"holder {caller.holder_id}"
    gone = "/endpoints/999"
    url, long = {"url": "https://shop.example/b"}, {"url": _LONG_URL}
    return [
        Act(verb="endpoint add", subject="", path="/endpoints", fields=url, refused_fields=long),
        Act(verb="endpoint set", subject=whose, path=f"{own}/change", fields=url, refused_fields=long),
        Act(verb="endpoint set", subject=whose, path=f"{own}/change", fields=url, refused_fields=long, leaves=0),
        Act(verb="endpoint rotate", subject=whose, path=f"{own}/rotate", refused_path=f"{gone}/rotate"),
        Act(
            verb="endpoint replay", subject=whose, path=f"{own}/replay", fields={"since": "2020-01-01T00:00:00"},
            refused_fields={"since": ""},
        ),
        Act(verb="endpoint send", subject=whose, path=f"{own}/send", refused_path=f"{gone}/send"),
        Act(
            verb="delivery resend",
            subject=f"delivery {delivery['id']}",
            path=f"/deliveries/{delivery['id']}/resend",
            refused_path="/deliveries/999/resend",
        ),
        Act(
            verb="sandbox deposit", subject=of_holder, path="/sandbox/deposit", fields={"amount": "10"},
            refused_fields={"amount": "0"},
        ),
        Act(
            verb="sandbox test event",
            subject=of_holder,
            path="/sandbox/test-event",
            refused_fields={"amount": "9" * 40}
        ),
        Act(verb="sandbox test event", subject=of_holder, path="/sandbox/charge", refused_fields={"amount": "-1"}),
        Act(
            verb="sandbox pay", subject=f"charge {charge.id}", path=f"/sandbox/phone/{charge.id}",
            fields={"answer": "pay"}, refused_path="/sandbox/phone/999",
        ),
        Act(
            verb="refund create", subject=f"transfer {received['id']}", path=f"/transfers/{received['id']}/refund",
            fields={"amount": "R$ 4,00", "number": "1"}, refused_fields={"amount": "1..2", "number": "1"},
        ),
        Act(verb="sandbox return", subject="transfer 5", path="/sandbox/return/5", refused_path="/sandbox/return/999"),
        Act(
            verb="sandbox clock", subject="clock", path="/sandbox/clock", fields={"by": "60"},
            refused_fields={"by": "9" * 400},
        ),
        Act(
            verb="sandbox faults", subject="network", path="/sandbox/faults", fields={"effect": "lost"},
            refused_fields={"effect": "x" * 60_000},
        ),
        Act(
            verb="institution ask", subject="institution loja", path="/days/loja/ask", fields={"asked": "E"},
            is_operators=True,
        ),
        Act(
            verb="operator transfer approve", subject=f"transfer {approved}", path=f"{approvals}/{approved}/approve",
            refused_path=f"{approvals}/999/approve", is_operators=True,
        ),
        Act(
            verb="operator transfer refuse", subject=f"transfer {refused}", path=f"{approvals}/{refused}/refuse",
            refused_path=f"{approvals}/{approved}/refuse", is_operators=True,
        ),
        Act(
            verb="case note", subject=f"case {case['id']}", path=f"/audit/cases/{case['id']}/note",
            fields={"note": "asked the bank"}, is_operators=True,
        ),
        Act(
            verb="case close", subject=f"case {case['id']}", path=f"/audit/cases/{case['id']}/close",
            fields={"reason": "the bank has mended it"}, is_operators=True,
        ),
        Act(
            verb="infraction defend",
            subject=f"infraction {contested['id']}",
            path=f"/infractions/{contested['id']}/defend",
            fields={"text": "It was delivered"},
        ),
        Act(verb="endpoint remove", subject=whose, path=f"{own}/remove", refused_path=f"{own[:-1]}999/remove"),
        Act(verb="console sign-out", subject="session 1", path="/sessions/1/end", refused_path="/sessions/999/end"),
        Act(verb="console sign-out", subject="session 2", path="/sign-out", refused_path="/sessions/1/end"),
    ]  # fmt: skip


@pytest.fixture
def deed(monkeypatch: pytest.MonkeyPatch) -> _Deed:
    deed = _Deed()
    for name in ("sandbox.pay_by_code", "sandbox.give_back", "clock.advance_clock"):
        monkeypatch.setattr(f"pixconnect.features.console_pages.sandbox.{name}", deed)
    return deed


async def test_each_act_leaves_one_row_and_a_refused_one_a_line_of_the_log(
    console: InProcess, caller: Caller, deed: _Deed, monkeypatch: pytest.MonkeyPatch
) -> None:
    issued = await issue_client(console, caller.holder_id)
    own = [console.nobody.of(await sign_in_as(console, issued)) for _ in range(2)]
    acts = await _list_acts(console, own[1], caller)
    _stub_transfer(monkeypatch, caller)
    operator = console.nobody.of(await sign_in(console, "operator"))
    for act in acts:
        if act.is_operators:
            assert (await _do(own[1], act)).status == 403
        browser, by = (operator, "console ") if act.is_operators else (own[1], "client ")
        rows = len(await console.audited())
        with capture_logs() as logs:
            refused = await _do(browser, act, refused=True)
        assert 400 <= refused.status < 500, (act, refused)
        assert len(await console.audited()) == rows, act
        [line] = [line for line in logs if line["event"] == "act refused"]
        assert len(str(line)) < 1_000
        assert line["by"].startswith(by)
        done = await _do(browser, act)
        assert done.status in {200, 303}, (act, done)
        new = (await console.audited())[rows:]
        assert [verb for verb, _ in new] == [act.verb] * act.leaves, act
        if act.subject and act.leaves:
            assert new[0][1] == act.subject
    assert sum(console.console.refused_acts.values()) == len(acts) + sum(act.is_operators for act in acts)
    await _check_that_all_forms_are_among(console, acts)


async def _check_that_all_forms_are_among(console: InProcess, acts: list[Act]) -> None:
    known = {(act.path.split("?")[0]).rstrip("/") for act in acts}
    forms = {row.path for row in pages.ROUTES if row.method == "POST" and not row.is_public}
    missing = {form for form in forms if not any(_fits(form, path) for path in known)}
    # The first writes a file with data that its visitor may read, and changes nothing. The others are about cases of
    # an account, which a sandbox does not have: test_cases.py.
    lines = {"/days/{name}/{day}/separate", "/days/{name}/patterns/{id}/forget"}
    assert missing == {"/ledger/saving", *lines, *(f"/audit/cases/{{id}}/{act}" for act in ("adjust", "answer", "end"))}


def _fits(form: str, path: str) -> bool:
    of_form, of_path = form.split("/"), path.split("/")
    same = zip(of_form, of_path, strict=False)
    return len(of_form) == len(of_path) and all(one in {"{id}", "{name}", other} for one, other in same)


async def test_a_reader_does_nothing_and_leaves_nothing(
    console: InProcess, caller: Caller, deed: _Deed, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = console.nobody.of(await sign_in_client(console, caller.holder_id))
    acts = await _list_acts(console, holder, caller)
    _stub_transfer(monkeypatch, caller)
    reader = console.nobody.of(await sign_in(console, "reader"))
    rows = await console.audited()
    for act in acts:
        if act.path == "/sign-out":
            continue
        refused = await _do(reader, msgspec.structs.replace(act, path=f"{act.path}?holder={caller.holder_id}"))
        assert refused.status == 403, (act, refused)
    assert await console.audited() == rows


async def test_an_unknown_outcome_is_kept_as_that(console: InProcess, caller: Caller, deed: _Deed) -> None:
    charge = await make_charge(console.service, caller)
    holder = console.nobody.of(await sign_in_client(console, caller.holder_id))
    deed.error = errors.OutcomeUnknown("the sandbox did not answer")
    answer = await holder.post(f"/sandbox/phone/{charge.id}", {"answer": "pay"})
    assert answer.status == 504
    newest, *_ = await audit.list_entries(console.operator)
    page = (await console.nobody.of(await sign_in(console, "reader")).get("/audit")).content.decode()
    assert f'>{newest.login}<span class="under">{newest.door}</span></td>' in page
    assert newest.verb == "sandbox pay"
    assert '"outcome": "unknown"' in str(newest.after)


async def test_what_is_not_recorded_is_not_done(console: InProcess, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row is in the same transaction: if the audit cannot be written, nothing changes."""
    holder = console.nobody.of(await sign_in_client(console, caller.holder_id))
    assert (await holder.post("/endpoints", {"url": "https://shop.example/a"})).status == 200
    [before] = await console.service.fetch("select * from webhook_endpoint")

    async def fail(*_: object) -> None:
        raise ConnectionResetError

    monkeypatch.setattr(audit_store, "append", fail)
    for path, fields in (
        ("/endpoints", {"url": "https://shop.example/b"}),
        (f"/endpoints/{before['id']}/change", {"url": "https://shop.example/b"}),
        (f"/endpoints/{before['id']}/rotate", {}),
        (f"/endpoints/{before['id']}/replay", {"since": "2020-01-01"}),
        (f"/endpoints/{before['id']}/send", {}),
        (f"/endpoints/{before['id']}/remove", {}),
        (f"/sessions/{holder.who.session_id}/end", {}),
    ):
        assert (await holder.post(path, fields)).status == 503, path
    assert await console.service.fetch("select * from webhook_endpoint") == [before]
    assert (await holder.get("/endpoints")).status == 200


async def test_events_of_the_time_while_an_endpoint_was_off_are_sent_on_request(console: InProcess) -> None:
    caller = await open_holder(console.service)
    browser = console.nobody.of(await sign_in_client(console, caller.holder_id))
    assert (await browser.post("/endpoints", {"url": "https://shop.example/a"})).status == 200
    [endpoint] = await console.service.fetch("select id from webhook_endpoint")
    own = f"/endpoints/{endpoint['id']}"
    await browser.post(f"{own}/change", {"status": "inactive"})
    assert "Webhooks are switched off" in (await browser.get("/")).content.decode()
    await make_charge(console.service, caller)
    page = (await browser.get(own)).content.decode()
    assert all(said in page for said in ("<strong>Added</strong>", "<strong>Changed</strong>", "State: switched off"))
    since = page.partition('name="since" value="')[2][:19]
    [event] = await console.service.fetch("select id from event")
    assert 'href="/endpoints"' in (await browser.get(f"/events/{event['id']}")).content.decode().partition("No receiver")[2]
    # Also after it was switched on without them.
    for path, asked, count in (("change", "", 0), ("replay", since, 1)):
        assert (await browser.post(f"{own}/{path}", {"status": "active", "since": asked})).status == 303
        assert len(await console.service.fetch("select from delivery")) == count
        assert 'name="since"' in (await browser.get(own)).content.decode()


async def test_a_disabled_endpoint_proposes_to_send_again_from_its_first_failure(console: InProcess) -> None:
    caller = await open_holder(console.service)
    browser = console.nobody.of(await sign_in_client(console, caller.holder_id))
    assert (await browser.post("/endpoints", {"url": "https://shop.example/a"})).status == 200
    [row] = await console.service.fetch(
        "update webhook_endpoint set status = 'disabled', status_reason = '', first_failure_at = now() - interval '5 days' "
        "returning id, first_failure_at at time zone 'America/Sao_Paulo' as failed_at"
    )
    page = (await browser.get(f"/endpoints/{row['id']}")).content.decode()
    assert page.partition('name="since" value="')[2][:19] == f"{row['failed_at']:%Y-%m-%dT%H:%M:%S}"


async def test_a_text_of_any_length_is_kept_as_its_beginning(console: InProcess) -> None:
    act = audit.Act(operator="tests 2", verb="endpoint add", subject="x" * 500, after={"urls": ["ü" * 5_000, "\0"]})
    await audit.note(console.operator, act)
    newest, *_ = await audit.list_entries(console.operator)
    assert len(newest.subject) < LENGTH_MAX + 50
    kept = msgspec.json.decode(newest.after or "")
    assert kept == {"urls": ["ü" * LENGTH_MAX + "... (cut, of 5000 characters)", "\ufffd"]}


async def _do(browser: Browser, act: Act, *, refused: bool = False) -> Answer:
    if refused:
        return await browser.post(act.refused_path or act.path, act.refused_fields)
    return await browser.post(act.path, act.fields)


def _stub_transfer(monkeypatch: pytest.MonkeyPatch, caller: Caller) -> None:
    """A sent transfer 5, which the fake rail never settles."""
    read = sandbox.timeline.read_timeline

    async def read_timeline(context: Any, viewer: Any, kind: Any, resource_id: int) -> Any:
        if (kind, resource_id) != ("transfer", 5):
            return await read(context, viewer, kind, resource_id)
        sent = SimpleNamespace(id=5, holder_id=caller.holder_id, end_to_end_id="E")
        return SimpleNamespace(facts=SimpleNamespace(transfers=[sent]))

    monkeypatch.setattr(sandbox.timeline, "read_timeline", read_timeline)


async def test_what_waits_for_a_yes_is_listed_with_what_one_must_know(console: InProcess, caller: Caller) -> None:
    first, second = await _wait_for_operators(console)
    operator = console.nobody.of(await sign_in(console, "operator"))
    page = (await operator.get("/audit/approvals")).content.decode()
    assert all(f"/audit/approvals/{each}/{act}" in page for each in (first, second) for act in ("approve", "refuse"))
    assert outside_party().name in page
    assert re.search(r"<dt>Holder</dt><dd><a href=\"/holders/\d+\">", page)
    waiting = (await operator.get(f"/transfers/{first}")).content.decode().partition('class="wait')[2].partition("</div>")[0]
    assert '<a href="/audit/approvals">To approve</a>' in waiting
    assert "Cancelled in " in waiting
    assert b"/audit/approvals" in (await operator.get("/")).content
    for path in ("/transfers", "/", f"/search?q={first}"):
        assert "waits for approval" in (await operator.get(path)).content.decode(), path
    for kind, number in (("transfer", first), ("holder", caller.holder_id)):
        assert f"/audit?about={kind}+{number}" in (await operator.get(f"/{kind}s/{number}")).content.decode()
        assert f"Only: {kind} {number}" in (await operator.get(f"/audit?about={kind}+{number}")).content.decode()


async def test_a_refund_sent_twice_is_made_once(console: InProcess, caller: Caller) -> None:
    paid = credit_report(console.service, amount_cents=1_000)
    await receive_credit(console.service.context, paid)
    [received] = await console.service.fetch("select id from transfer")
    holder = console.nobody.of(await sign_in_client(console, caller.holder_id))
    blind = console.nobody.of(await sign_in_client(console, caller.holder_id, "transfer.read", "refund.read"))
    page = f"/transfers/{received['id']}"
    assert b'name="number" value="1"' in (await holder.get(page)).content
    assert b'name="number"' not in (await blind.get(page)).content
    form = {"amount": "4,00", "number": "1", "description": " Out of stock "}
    assert (await blind.post(f"{page}/refund", form)).status == 403
    answers = [await holder.post(f"{page}/refund", form) for _ in range(2)]
    assert len({answer.headers["location"] for answer in answers}) == 1
    assert (await holder.post(f"{page}/refund", {"amount": "5,00", "number": "1"})).status == 422
    own = {"accept-language": "pt-BR", "referer": f"http://{HOST}{page}?notice=refunded"}
    refused = await holder.post(f"{page}/refund", {"amount": "7,00", "number": "2"}, **own)
    assert refused.status == 422
    told = refused.content.decode()
    assert "Só é possível devolver mais R$\u00a06,00 deste Pix." in told
    assert f'href="{page}">Voltar à página' in told
    refused = await holder.post(f"{page}/refund", {"amount": "0", "number": "2"}, **own)
    assert "O valor deve ser de R$ 0,01 a R$ 9.999.999.999,99." in refused.content.decode().replace("\u00a0", " ")
    refused = await holder.post(f"{page}/refund", {"amount": "1", "number": "2", "description": "x" * 141}, **own)
    assert (refused.status, "O texto é longo demais." in refused.content.decode()) == (400, True)
    assert [*map(tuple, await console.service.fetch("select amount_cents, description from refund"))] == [(400, "Out of stock")]
    shown = (await holder.get(page)).content.decode()
    assert re.search(r"A refund of R\$\s4,00 was made (just now|[1-9].* s ago):", shown)
    assert 'name="number" value="2"' in shown
    assert 'name="amount" required inputmode="decimal" value="R$\u00a06,00"' in shown
    # A form that was shown before another refund makes none.
    await start_refund(console.service.context, caller, RefundRequest(end_to_end_id=paid.end_to_end_id, amount_cents=100))
    refused = await holder.post(f"{page}/refund", {"amount": "1,00", "number": "2"}, **own)
    assert "Outra devolução foi feita depois que este formulário foi aberto" in refused.content.decode()
    console.service.clock.advance(days=1)
    holder = console.nobody.of(await sign_in_client(console, caller.holder_id))
    assert (await holder.get(page)).content.decode().count("A refund of R$") == 2
