"""The audit of operators: each changing verb leaves one row, and reading verbs leave none."""

import asyncio
import json
import socket
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest
from cyclopts import App

from pixconnect.running.verb_table import VERBS, app
from support import postgres
from support.command_line import DISABLED_ENDPOINT, OPEN_CHARGE, CommandLine
from support.postgres import Addresses, as_owner
from support.service import FakeClock, open_holder, open_service, send_out
from support.verifier import chain_deposit

# Verbs that run a part, make the tables, or examine the machine do not change what is in the tables.
_PARTS = {"run", "serve", "work", "sandbox", "console", "migrate", "completion", "doctor", "systemd install"}
_LOOKS = {
    "audit list": (),
    "proposal list": (),
    "database show": (),
    "client list": ("--holder-id", "1"),
    "client activity": ("{client}", "--since", "2026-07-01", "--holder-id", "1"),
    "operator endpoint list": (),
    "operator list": (),
    "operator transfer list": (),
    "face list": (),
    "face log": ("efi",),
    "face show": ("efi",),
    "find": ("77",),
    "verify": ("--rule", "balance_is_sum", "--again-after-s", "0"),
    "verify heads write": ("{file}",),
    "verify entry": ("{entry}", "--holder-id", "{owner}"),
    "holder list": (),
    "holder show": ("--holder-id", "1"),
    "key list": ("--holder-id", "1"),
    "block list": (),
    "case list": (),
    "case show": ("{case}",),
    "report list": (),
    "report show": ("{report}",),
    "secrets clients-left": (),
    "signing-key list": (),
}
_CHANGES: dict[str, Sequence[str]] = {
    "holder create": ("--name", "Ana", "--tax-id", "52998224725", "--account-number", "77"),
    "holder set": ("--holder-id", "1", "--day-limit", "5000"),
    "holder disable": ("--holder-id", "1"),
    "holder enable": ("--holder-id", "1"),
    "key add": ("--holder-id", "1", "--key-type", "EMAIL", "--key", "ana@shop.example"),
    "key remove": ("--holder-id", "1", "--key", "ana@shop.example"),
    "client create": ("--holder-id", "1", "--scope", "charge.read"),
    "client certificate": ("--client-id", "{client}"),
    "client set": ("--client-id", "{client}", "--add-scope", "cob.read"),
    "client rotate": ("--client-id", "{client}"),
    "client disable": ("--client-id", "{client}"),
    "client enable": ("--client-id", "{client}"),
    "client revoke-tokens": ("--client-id", "{client}"),
    "signing-key rotate": (),
    "signing-key revoke": ("{kid}",),
    "signing-key renew-authority": (),
    "secrets reseal": (),
    "operator add": ("--name", "maria", "--role", "operator"),
    "operator reset": ("--name", "maria"),
    "operator unlock": ("--name", "maria"),
    "operator remove": ("--name", "maria"),
    "operator link": (),
    "operator charge remove": ("--holder-id", "1", "--txid", "a" * 32),
    "operator transfer approve": ("{to_approve}",),
    "operator transfer refuse": ("{to_refuse}",),
    "operator endpoint resume": ("5",),
    "operator endpoint allow": ("hooks.shop.example",),
    "operator endpoint replay": ("5", "--since", "2026-07-01"),
    "client delete": ("--client-id", "{client}"),
    "case note": ("{case}", "asked the institution"),
    "case close": ("{case}", "--reason", "it was a fee"),
    "report close": ("{report}", "--reason", "booked by hand"),
    "database recovered": (),
    "face add": ("--name", "efi", "--holder-id", "1"),
    "person export": ("--tax-id", "52998224725", "--file", "{file}"),
    "person erase": ("--tax-id", "12345678909", "--note", "{file}-of-notes", "--yes"),
}
# Verbs of live mode alone; their own tests check the rows.
_LIVE = {
    f"institution {verb}"
    for verb in (
        "add", "list", "show", "check", "pause", "resume", "rotate", "remove", "statement", "days", "close", "allow",
        "unmatched", "release", "ask", "rehearse", "webhook show", "webhook set", "webhook restore",
    )
} | {f"case {verb}" for verb in ("adjust", "answer", "separate", "patterns", "remember", "forget")} | {
    "proposal confirm", "holder succeed"
}  # fmt: skip
_RECORDED_AS = {"face add": "client create"}

_KEPT_REPORT = """
    insert into pixconnect.kept_report (kind, reason, explanation, name, report_id, report, fingerprint)
    values ('settled', 'unknown_order', 'we know no such order', 'E1', 'r1', '{}', '')
"""

_CASE = """
    insert into pixconnect.kept_case (kind, name, facts, since) values ('report', '7', 'a line that nobody knows', now())
"""

_LOSS = """
    insert into pixconnect.database_loss (reason, system_identifier, orders_count) values ('another timeline', 1, 0)
"""


async def _wait_for_operators(database: Addresses) -> list[int]:
    """Make two transfers that wait for an operator's approval, and return their ids."""
    async with open_service(database, clock=FakeClock(datetime.now(UTC))) as service:
        payer = await open_holder(service, account_number="9009", funds_cents=1000)
        await service.set_holder(payer, approve_above_cents=0)
        return [(await send_out(service, payer, 1)).id for _ in range(2)]


def test_every_verb_is_known_to_these_tests() -> None:
    """A new verb must be added to one of the tables above, which decides whether it leaves a row."""
    of_integrators = {verb.name for verb in VERBS if verb.group == "integrator"}
    for_one_holder = {verb for verb in _verbs(app) if verb.split()[0] in of_integrators}
    assert set(_verbs(app)) - _PARTS - for_one_holder == {*_LOOKS, *_CHANGES, *_LIVE}


@pytest.mark.long
def test_each_change_leaves_one_row_and_a_look_leaves_none(
    pixconnect: CommandLine, database: Addresses, tmp_path: Path
) -> None:
    postgres.execute(database.owner_url, _KEPT_REPORT)
    postgres.execute(database.owner_url, _LOSS)
    postgres.execute(database.owner_url, _CASE)
    holder_id = pixconnect.create_holder()
    postgres.execute(database.owner_url, DISABLED_ENDPOINT)
    postgres.execute(database.owner_url, OPEN_CHARGE)
    assert holder_id == "1"
    client_id = str(pixconnect.json("client", "create", "--holder-id", holder_id, "--scope", "charge.read")["client_id"])
    kid = str(pixconnect.json("signing-key", "rotate")["kid"])
    owner, entry = asyncio.run(chain_deposit(database, "1002"))
    looked_at = dict(client=client_id, report=1, case=1, owner=owner, entry=entry, file=tmp_path / "heads")
    approve, refuse = asyncio.run(_wait_for_operators(database))
    changed = dict(client=client_id, kid=kid, report=1, case=1, to_approve=approve, to_refuse=refuse)
    changed["file"] = tmp_path / "person"
    rows = len(_entries(pixconnect))
    for verb, words in _CHANGES.items():
        pixconnect.json(*verb.split(), *(word.format_map(changed) for word in words))
        newest, *before = _entries(pixconnect)
        assert (newest["verb"], len(before)) == (_RECORDED_AS.get(verb, verb), rows)
        rows += 1
    for verb, words in _LOOKS.items():
        pixconnect.json(*verb.split(), *(word.format_map(looked_at) for word in words))
    assert len(_entries(pixconnect)) == rows


def test_a_row_tells_who_did_what_to_what_and_how_it_was_before(pixconnect: CommandLine) -> None:
    pixconnect.create_holder()
    assert (
        pixconnect.run(*("holder", "set", "--holder-id", "1", "--transfer-limit", "5000", "--operator", "maria")).returncode
        == 0
    )
    pixconnect.run("holder", "disable", "--holder-id", "1", PIXCONNECT_OPERATOR="joana")
    disabled, limited, opened = _entries(pixconnect)
    assert [disabled["operator"], limited["operator"]] == ["joana", "maria"]
    assert str(opened["operator"]).endswith(f"@{socket.gethostname()}")
    assert (limited["verb"], limited["subject"]) == ("holder set", "holder 1")
    assert '"transfer_limit_cents": null' in str(limited["before"])
    assert '"transfer_limit_cents": 5000' in str(limited["after"])
    assert "before" not in opened


def test_the_list_is_filtered_and_reports_that_more_exist(pixconnect: CommandLine) -> None:
    pixconnect.create_holder()
    for operator, limit in (("ana", "5"), ("bia", "6"), ("ana", "7")):
        pixconnect.json("holder", "set", "--holder-id", "1", "--day-limit", limit, "--operator", operator)
    filtered = ("audit", "list", "--by", "ana", "--limit", "1", "--json")
    done = pixconnect.run(*filtered)
    (newest,) = json.loads(done.stdout)["entries"]
    assert (newest["operator"], '"day_limit_cents": 7,' in newest["after"]) == ("ana", True)
    assert f"more exist: --before {newest['id']}" in done.stderr
    done = pixconnect.run(*filtered, "--before", str(newest["id"]))
    (oldest,) = json.loads(done.stdout)["entries"]
    assert '"day_limit_cents": 5,' in oldest["after"]
    assert "more exist" not in done.stderr


def test_what_is_refused_leaves_no_row_and_secrets_stand_in_none(pixconnect: CommandLine) -> None:
    pixconnect.create_holder()
    secret = str(pixconnect.json("client", "create", "--holder-id", "1", "--scope", "charge.read")["client_secret"])
    pixconnect.refusal("holder", "disable", "--holder-id", "404")
    pixconnect.refusal("client", "rotate", "--client-id", "nobody")
    entries = _entries(pixconnect)
    assert [entry["verb"] for entry in entries] == ["client create", "holder create"]
    assert secret not in str(entries)
    assert "hash" not in str(entries)


async def test_nobody_changes_or_removes_a_row(pixconnect: CommandLine, database: Addresses) -> None:
    pixconnect.create_holder()
    async with as_owner(database) as owner:
        for statement in ("update audit set operator = 'x'", "delete from audit", "truncate audit"):
            with pytest.raises(asyncpg.IntegrityConstraintViolationError):
                await owner.execute(statement)
        await owner.execute("set role pixconnect_operator")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await owner.execute("insert into audit (at, operator, verb, subject) values (now(), 'a', 'b', 'c')")


FORBIDDEN = {
    "service": [
        "insert into holder select (jsonb_populate_record(holder, '{\"id\": 2}')).* from holder",
        "update holder set day_limit_cents = null",
        "update holder set may_withdraw = true",
        "update client set disabled_at = null",
        "update client set tokens_from = null",
        "update client set scopes = array['cob.read']",
        "update client set certificate = null",
        "update signing_key set revoked_at = now()",
        "delete from client",
        "insert into client select * from client",
        "insert into pix_key select * from pix_key",
        "delete from pix_key",
        "insert into removed_pix_key (key, holder_id) values ('a', 1)",
        "delete from removed_pix_key",
        "insert into balance (holder_id, modified_at) values (1, now())",
        "insert into statement_head (holder_id) values (1)",
        "select nextval('holder_id')",
        "insert into audit (operator, verb, subject) values ('a', 'b', 'c')",
        "select * from audit",
        "select * from console_operator",
        "select * from console_session",
        "insert into console_link (token_hash, expires_at) values ('', now())",
        "set role pixconnect_operator",
    ],
    "console": [
        "insert into holder default values",
        "insert into pix_key (key, holder_id) values ('a', 1)",
        "update client set disabled_at = now()",
        "insert into console_operator (name) values ('mallory')",
        "update console_operator set password_hash = 'mine'",
        "update console_operator set totp_sealed = ''",
        "update console_operator set role = 'operator'",
        "delete from console_operator",
        "insert into console_link (token_hash, expires_at) values ('', now())",
        "set role pixconnect_operator",
    ],
}


@pytest.mark.parametrize(("role", "statement"), [(role, each) for role, listed in FORBIDDEN.items() for each in listed])
async def test_neither_role_may_do_what_operators_do(database: Addresses, role: str, statement: str) -> None:
    async with as_owner(database) as owner:
        await owner.execute(f"set session authorization pixconnect_{role}")
        assert role == "service" or await owner.fetchval("select count(*) from console_session") >= 0
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await owner.execute(statement)


def test_a_login_without_the_role_is_told_so(pixconnect: CommandLine, database: Addresses, stranger: str) -> None:
    del database
    complaint = pixconnect.refusal("holder", "show", "--holder-id", "1", DATABASE_URL=stranger)
    assert "PIXCONNECT_OPERATOR_DATABASE_URL" in complaint


@pytest.fixture
def stranger(database: Addresses) -> Iterator[str]:
    """The address of a login that only has the service's role."""
    postgres.execute(database.owner_url, "create role service_only login noinherit password 'only'; ")
    postgres.execute(database.owner_url, "grant pixconnect_service to service_only")
    yield f"postgresql://service_only:only@{database.service_url.partition('@')[2]}"
    postgres.execute(database.owner_url, "drop role service_only")


def _entries(pixconnect: CommandLine) -> list[dict[str, object]]:
    return list(pixconnect.json("audit", "list")["entries"])


def _verbs(of: App, *above: str) -> Iterator[str]:
    for name in of:
        if name.startswith("-"):
            continue
        verb = of[name]
        below = list(_verbs(verb, *above, name))
        yield from below
        # A verb with verbs below it may be a verb itself.
        if not below or verb.default_command is not None:
            yield " ".join((*above, name))
