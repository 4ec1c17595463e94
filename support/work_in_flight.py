"""Work of every kind that is under way when something happens to an installation, and its required outcome.

It is created over HTTP, with requests that every version accepts.
"""

import asyncio
import json
import time
from contextlib import suppress
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import asyncpg
from msgspec import Struct

from support.books import find_wrong
from support.waiting import PATIENCE_S, wait_until

# The oldest version must accept them all, so a new event does not belong here.
_HEARD = (
    *("qrcode.pending", "qrcode.approved", "qrcode.expired"),
    *(f"transfer.{way}.{status}" for way in ("in", "out") for status in ("processing", "confirmed", "error")),
    *(f"refund.{way}.{status}" for way in ("in", "out") for status in ("processing", "returned", "error")),
)
_IS_OVER = """
    select not exists (select from open_order)
        and not exists (select from transfer where status = 'PROCESSING')
        and not exists (select from delivery where status = 'pending')
        and not exists (
            select from event where not exists (
                select from event_feed where event.id = any(event_ids)
            )
        )
"""
_STILL_THERE = """
    select 'order' as kind, name, null::text as why from open_order
    union all select 'transfer', end_to_end_id, direction from transfer where status = 'PROCESSING'
    union all select 'delivery', id::text, due_at::text || ' ' || attempts_count from delivery where status = 'pending'
    union all select 'endpoint', id::text, status from webhook_endpoint
"""
_RULES_AT_REST = {
    "each event stands in the feed once": """
    select event.id from event
    left join lateral (select count(*) as times from event_feed where event.id = any(event_ids)) as placed on true
    where times <> 1
""",
    "what settled here settled there": """
    with ours as (
        select coalesce(network_id, end_to_end_id) as name, amount_cents, settled_at is not null as is_settled from transfer
        where direction = 'OUT' and not is_book
        union all
        select coalesce(network_id, return_id), amount_cents, status = 'RETURNED' from refund where flow = 'OUT' and not is_book
    )
    select * from (select * from ours where is_settled) as ours
    full join (
        select * from sandbox.settlement where code is null and not is_open and not is_closed
    ) as theirs on theirs.id = name
    where ours.amount_cents is distinct from theirs.amount_cents
""",
    "each delivery arrived": "select id from delivery where status <> 'delivered'",
    "a deposit is the cause of money that comes from nowhere": """
        select entry.id from ledger_entry as entry left join deposit using (id, holder_id)
        where entry.debit_account = 'funding' and deposit.id is null
    """,
}


class Acknowledged(Struct, frozen=True, kw_only=True):
    """What the old program has acknowledged to its callers."""

    client_id: str
    client_secret: str
    holder_id: int
    charges: dict[str, int]  # ids by external id, as below
    waiting_codes: list[str]  # QR codes of payable charges
    transfers: dict[str, int]
    refunds: dict[str, int]


class HolderOfHome:
    """The demonstration's holder as an integrator, with requests that every version answers."""

    def __init__(self, base_url: str, client_id: str, client_secret: str) -> None:
        self._base_url = base_url
        form = dict(grant_type="client_credentials", client_id=client_id, client_secret=client_secret)
        self._token = self._send("POST", "/v1/iam/users/login", urlencode(form).encode(), {})["data"]["access_token"]

    def ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        return self._send(method, path, None if body is None else json.dumps(body).encode(), headers)["data"]

    def _send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> dict[str, Any]:
        request = Request(self._base_url + path, body, headers, method=method)  # noqa: S310 - our own
        try:
            with urlopen(request, timeout=60) as answer:  # noqa: S310 - our own
                return json.load(answer)
        except HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.read().decode()}") from error


def put_work_in_flight(base_url: str, sandbox: dict[str, Any], hook_url: str) -> Acknowledged:
    """Leave some finished and some running work of every kind; the last request has just been answered."""
    holder = HolderOfHome(base_url, sandbox["client_id"], sandbox["client_secret"])
    key = next(key for key in sandbox["pix_keys"] if "@" in key)
    for url in (f"{hook_url}/{sandbox['holder_id']}", "http://127.0.0.1:9/nobody-listens"):
        holder.ask("POST", "/v1/webhook/endpoints", dict(url=url, secret="s" * 16, event_types=_HEARD))
    holder.ask("POST", "/sandbox/v1/deposits", dict(amount=50_00))
    charges, codes, transfers, refunds = dict[str, int](), list[str](), dict[str, int](), dict[str, int]()

    def charge(number: int) -> None:
        made = holder.ask("POST", "/v1/connect/charge", dict(amount=1_000 + number, key=key, external_id=f"charge-{number}"))
        charges[f"charge-{number}"] = made["id"]
        codes.append(made["emvqrcps"])

    def send(number: int, payee: str) -> None:
        body = dict(amount=100 + number, key=f"{payee}@sandbox.pix.example", key_type="EMAIL", external_id=f"transfer-{number}")
        transfers[f"transfer-{number}"] = holder.ask("POST", "/v1/connect/transfer/key", body)["id"]

    def refund(number: int, end_to_end_id: str) -> None:
        body = dict(end_to_end_id=end_to_end_id, amount=50 + number, external_id=f"refund-{number}")
        refunds[f"refund-{number}"] = holder.ask("POST", "/v1/connect/refund", body)["id"]

    for number in range(8):
        charge(number)
    paid = [holder.ask("POST", "/sandbox/v1/payments", dict(emv=codes.pop(0)))["end_to_end_id"] for _ in range(3)]
    refund(0, paid[0])
    for number, payee in enumerate(("settle", "reject-ac03", "settle")):
        send(number, payee)
    rules = [dict(effect=effect, match=dict(operation="refund"), times=1) for effect in ("lost", "no_answer", "delay:90000")]
    rules += [
        dict(effect="lost", match=dict(operation="submit", amount=103)),
        dict(effect="delay:90000", match=dict(amount=104)),
    ]
    holder.ask("PUT", "/sandbox/v1/faults", dict(rules=rules))
    for number, end_to_end_id in enumerate((paid[1], paid[1], paid[2]), start=1):
        refund(number, end_to_end_id)
    for number, payee in enumerate(("settle", "settle", "silent", "lost", "slow", "silent"), start=3):
        send(number, payee)
    for number in range(8, 20):
        charge(number)
    return Acknowledged(
        client_id=sandbox["client_id"],
        client_secret=sandbox["client_secret"],
        holder_id=int(sandbox["holder_id"]),
        charges=charges,
        waiting_codes=codes,
        transfers=transfers,
        refunds=refunds,
    )


async def check_that_all_ends(base_url: str, owner: asyncpg.Connection, known: Acknowledged) -> None:
    """Find everything that was acknowledged, also in the tables, and wait until all work has ended."""
    before = await owner.fetchval("select array_agg(id) from event")
    holder = HolderOfHome(base_url, known.client_id, known.client_secret)
    for kind in ("charge", "transfer", "refund"):
        for external_id, id_ in getattr(known, f"{kind}s").items():
            assert holder.ask("GET", f"/v1/connect/{kind}/external-id/{external_id}")["id"] == id_
    for code in known.waiting_codes[:3]:
        paid = await asyncio.to_thread(holder.ask, "POST", "/sandbox/v1/payments", dict(emv=code))
        await asyncio.to_thread(_wait_until_it_came_in, holder, paid["end_to_end_id"])
    await _wait_until_all_ends(owner, holder)
    feed = _read_feed(holder)
    assert len(feed) == len(set(feed))
    assert set(before) <= set(feed)
    wrong = await find_wrong(owner)
    assert not wrong, wrong
    for rule, broken in _RULES_AT_REST.items():
        rows = await owner.fetch(broken)
        assert not rows, f"{rule}: {[tuple(row) for row in rows]}"


def _wait_until_it_came_in(holder: HolderOfHome, name: str) -> None:
    """The payer does not wait long, and on a busy machine has its answer before."""

    def is_here() -> bool:
        with suppress(AssertionError):  # there is none yet
            return holder.ask("GET", f"/v1/connect/transfer/end-to-end-id/{name}")["status"] == "CONFIRMED"
        return False

    wait_until(is_here, f"{name} has come in")


async def _wait_until_all_ends(owner: asyncpg.Connection, holder: HolderOfHome) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    holder.ask("DELETE", "/sandbox/v1/faults")
    while not await owner.fetchval(_IS_OVER):
        assert time.monotonic() < deadline_s, await owner.fetch(_STILL_THERE)
        # Orders lost by a restore end half a day later at the earliest.
        await asyncio.to_thread(holder.ask, "POST", "/sandbox/v1/clock", dict(advance_s=3600))
        await asyncio.sleep(0.2)


def _read_feed(holder: HolderOfHome) -> list[int]:
    """The id of every event, read from the first on."""
    found, query = list[int](), "start=oldest"
    while True:
        page = holder.ask("GET", f"/v1/webhook/feed?page_size=50&{query}")
        if not page["events"]:
            return found
        found += [event["id"] for event in page["events"]]
        query = f"cursor={page['cursor']}"
