"""Copy the holders of ``support/all_books.py`` on its rail many times, with one SQL statement for each table."""

from typing import Final

import asyncpg

from pixconnect.features.proof.tables.charges import DIGEST
from pixconnect.kernel.tables.installation import COUNTED
from support.all_books import MARK

SHIFT: Final = 200_000  # the distance between the ids of two copies
_NEAR: Final = {("delivery", "id"): 100, ("delivery_attempt", "delivery_id"): 100, ("event_feed", "position"): 100}
"""Tables whose partitions would end too soon."""
_IDS: Final = frozenset({
    "id", "holder_id", "transfer_id", "refund_id", "block_id", "charge_id", "held_by", "entry_id", "deficit_entry_id",
    "source_entry_id", "cause_id", "resource_id", "endpoint_id", "event_id", "owner_id", "delivery_id", "position",
})  # fmt: skip
_OF_HOLDER: Final = "holder_id = any ($1)"
_TABLES: Final = dict(
    holder="id = any ($1)",
    **dict.fromkeys(
        (
            *(
                "balance", "statement_head", "pix_key", "client", "charge", "charge_revision", "charge_lot",
                "lot_item", "lot_request", "location", "transfer", "paid_amount", "refund", "ledger_entry",
            ),
            *(
                "open_order", "movement", "repayment", "block", "block_step", "infraction", "tally", "tally_change",
                "received_hour", "received_known", "event",
            ),
            *("event_feed", "webhook_endpoint", "key_webhook", "delivery", "origin_batch"),
        ),
        _OF_HOLDER,
    ),
    delivery_attempt="delivery_id in (select id from delivery where holder_id = any ($1))",
    **dict.fromkeys(
        ("webhook_tally", "webhook_tally_change"),
        "case kind when 'event' then owner_id = any ($1) "
        "else owner_id in (select id from webhook_endpoint where holder_id = any ($1)) end",
    ),
)  # fmt: skip
_DIGESTS: Final = """
    update charge_revision as kept set next_digest = sha256(convert_to(coalesce(later.contents, charge.contents), 'UTF8'))
    from charge_revision as earlier join charge on charge.id = earlier.charge_id and charge.holder_id = earlier.holder_id
    left join charge_revision as later on later.charge_id = earlier.charge_id and later.holder_id = earlier.holder_id
        and later.revision = earlier.revision + 1
    where (kept.charge_id, kept.holder_id, kept.revision) = (earlier.charge_id, earlier.holder_id, earlier.revision)
"""
_COLUMNS: Final = """
    select attname as name, format_type(atttypid, null) as type from pg_attribute
    where attrelid = $1::regclass and attnum > 0 and not attisdropped and attgenerated = '' order by attnum
"""
_CODE: Final = "lpad(to_hex(copy), 7, '0')"
# Ids and unique members of a state are changed too.
_SHOWN: Final = f"""
    replace({{state}}::text, '{MARK}', {_CODE})::jsonb
    || case when {{state}} ? 'id'
        then jsonb_build_object('id', ({{state}} ->> 'id')::bigint + copy * {SHIFT}) else '{{{{}}}}' end
    || case when {{state}} ? 'holder_id'
        then jsonb_build_object('holder_id', ({{state}} ->> 'holder_id')::bigint + copy * {SHIFT}) else '{{{{}}}}' end
    || case when {{state}} ? 'account_number'
        then jsonb_build_object('account_number', copy || 'K' || ({{state}} ->> 'account_number')) else '{{{{}}}}' end
"""
_AUDIT: Final = f"""
    insert into audit (at, operator, verb, subject, before, after)
    select at, operator, verb, case when subject ~ '^(holder|endpoint) '
            then split_part(subject, ' ', 1) || ' ' || split_part(subject, ' ', 2)::bigint + copy * {SHIFT}
            else replace(subject, '{MARK}', {_CODE}) end,
        {_SHOWN.format(state="before")}, {_SHOWN.format(state="after")}
    from audit cross join generate_series(1, $2::bigint) as copy
    where subject = any (select 'holder ' || id from unnest($1::bigint[]) as id)
        or subject in (select 'endpoint ' || id from webhook_endpoint where holder_id = any ($1))
        or subject in (select 'client ' || client_id from client where holder_id = any ($1))
    order by copy, id
"""


async def multiply(owner: asyncpg.Connection, holder_ids: list[int], times: int) -> None:
    """Add so many copies of these holders with all their rows, and of the audit's rows about them."""
    await owner.execute("set session_replication_role = replica")
    await owner.execute(_AUDIT, holder_ids, times)
    for table, condition in reversed(_TABLES.items()):
        columns = [(row["name"], row["type"]) for row in await owner.fetch(_COLUMNS, table)]
        copied = ", ".join(_copied(table, name, of_type) for name, of_type in columns)
        await owner.execute(
            f"insert into {table} ({', '.join(name for name, _ in columns)}) overriding system value "
            f"select {copied} from {table} cross join generate_series(1, $2::bigint) as copy where {condition}",
            holder_ids,
            times,
        )
    # The copies of hashed rows have other names.
    await owner.execute(f"update charge set fingerprint = {DIGEST} where revision is null and holder_id > {SHIFT}")
    await owner.execute(_DIGESTS)
    await owner.execute("update event_feed_state set settled_id = (select max(id) from event)")
    for counted in COUNTED:
        largest = ", ".join(f"(select max({counted.column}) from {table})" for table in counted.tables)
        await owner.execute(f"select setval('{counted.sequence}', greatest({largest}))")
    await owner.execute("set session_replication_role = origin")
    await owner.execute("analyze")


def _copied(table: str, name: str, of_type: str) -> str:
    if name == "account_number":
        return f"copy || 'K' || {name}"
    if name == "body":
        shown = [
            f"""'"id":' || {one} || ','"""
            for one in ("id", "resource_id", f"id + copy * {SHIFT}", f"resource_id + copy * {SHIFT}")
        ]
        return f"replace(replace(replace(body, '{MARK}', {_CODE}), {shown[0]}, {shown[2]}), {shown[1]}, {shown[3]})"
    if of_type == "bigint" and name in _IDS:
        return f"{name} + copy * {_NEAR.get((table, name), SHIFT)}"
    if name in ("event_ids", "ids"):
        return f"(select array_agg(each + copy * {SHIFT}) from unnest({name}) as each)"
    if of_type in ("text", "jsonb"):
        return f"replace({name}::text, '{MARK}', {_CODE})::{of_type}"
    return name
