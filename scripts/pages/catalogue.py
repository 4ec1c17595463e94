"""PostgreSQL's catalogue of a schema: its tables with their columns, comments and references, in a fixed order."""

import re
from collections.abc import Sequence
from graphlib import TopologicalSorter

import asyncpg
from msgspec import Struct

SCHEMAS = ("pixconnect", "sandbox", "verify")

SUBJECTS: dict[str, Sequence[str]] = {
    "identity": (
        *(
            "holder", "holder_family", "pix_key", "removed_pix_key", "client", "access_revision", "token_failure",
            "certificate_authority",
        ),
        *(
            "signing_key", "audit", "audit_facts", "audit_chain", "audit_chain_state", "console_operator",
            "console_session", "proposal", "console_link", "origin_batch", "origin",
        ),
    ),
    "money": (
        *(
            "balance", "statement_head", "whole_balance", "deposit", "movement", "repayment", "charge", "transfer",
            "payer_completion", "paid_amount", "settled_payee", "lookup_budget", "waiting_order", "pending_approval",
            "approval_answer", "initiated_transfer", "prepared_transfer",
        ),
        *("refund", "ledger_entry", "open_order", "allowed_posting", "allowed_transition", "kept_report"),
        *("refused_credit", "tally", "tally_change"),
        *("movement_facts", "repayment_facts", "adjustment_facts", "block_step_facts"),
        *("entry_facts", "entry_chain", "entry_chain_state", "person_salt", "erased_text", "text_sweep"),
        *("kept_case", "case_note", "adjustment", "case_ending"),
        *("block", "block_step", "infraction", "infraction_return"),
    ),
    "institutions": (
        "institution_account", "institution_certificate", "charge_opening", "charge_change",
        "institution_allowance", "refund_day", "transfer_day", "account_alarm", "return_name", "rail_step",
        "give_back", "institution_sweep", "institution_source", "institution_file", "institution_item",
        "own_investment", "institution_item_part", "institution_day", "answer_pattern", "line_answer",
        "institution_callback", "institution_webhook_before", "institution_day_file",
    ),
    "standard": (
        "charge_revision", "charge_lot", "lot_item", "lot_request", "location", "received_hour", "received_known",
    ),
    "webhooks": (
        *("event", "event_feed", "event_feed_state", "webhook_endpoint", "removed_endpoint", "key_webhook", "delivery"),
        *("delivery_attempt", "webhook_tally", "webhook_tally_change", "allowed_webhook_host", "callback_key"),
    ),
    "running": (
        *("schema_version", "installation", "clock", "worker", "slot_lease", "event_partition", "partition_pass"),
        *("id_high_water", "database_loss"),
    ),
    "proof": ("proof_run", "proof_finding", "proof_checkpoint"),
    "sandbox": ("settlement", "arrival", "directory_entry", "merchant_code", "infraction", "fault_rule", "certificate"),
}  # fmt: skip
"""Tables by subject, after the folders of the store; those of the simulated network are a subject of their own."""
OTHERS = "others"  # the subject of the tables that ``SUBJECTS`` does not name, as of a new feature


class Column(Struct, frozen=True, kw_only=True):
    name: str
    type: str
    is_required: bool
    comment: str | None


class Table(Struct, frozen=True, kw_only=True):
    name: str
    comment: str | None
    view: str | None
    """The query, if it is a view."""
    columns: Sequence[Column]
    key: Sequence[str]
    """The columns of the primary key."""
    references: Sequence[tuple[str, Sequence[str]]]
    """Foreign keys: the referenced table and the columns that refer to it."""


_TABLES = """
    select oid, relname, obj_description(oid, 'pg_class') as comment,
        case relkind when 'v' then pg_get_viewdef(oid, true) end as view
    from pg_class where relnamespace = $1::text::regnamespace and relkind in ('r', 'p', 'v') and not relispartition
    order by relname
"""
_COLUMNS = """
    select attname as name, format_type(atttypid, atttypmod) as type, attnotnull as is_required,
        col_description(attrelid, attnum) as comment
    from pg_attribute where attrelid = $1 and attnum > 0 and not attisdropped order by attnum
"""
_KEYS = """
    select nullif(confrelid, 0)::regclass::text as target,
        array(select attname::text from pg_attribute where attrelid = conrelid and attnum = any (conkey)) as columns
    from pg_constraint where conrelid = $1 and contype in ('p', 'f') order by conname
"""


async def read_tables(owner_url: str, schema: str) -> list[Table]:
    """The tables of a schema by subject, where referenced tables come first; names are not qualified by the schema."""
    connection = await asyncpg.connect(owner_url, server_settings=dict(search_path=schema))
    try:
        return _in_order([await _read_table(connection, row) for row in await connection.fetch(_TABLES, schema)])
    finally:
        await connection.close()


async def _read_table(connection: asyncpg.Connection, row: asyncpg.Record) -> Table:
    keys = await connection.fetch(_KEYS, row["oid"])
    return Table(
        name=row["relname"],
        comment=row["comment"],
        view=row["view"],
        columns=[Column(**dict(column)) for column in await connection.fetch(_COLUMNS, row["oid"])],
        key=next((key["columns"] for key in keys if key["target"] is None), ()),
        references=[(key["target"], key["columns"]) for key in keys if key["target"] is not None],
    )


def _in_order(tables: Sequence[Table]) -> list[Table]:
    """By subject, the others last, and in each subject after the objects that they refer to."""
    by_name = {table.name: table for table in tables}
    others = {name: (len(SUBJECTS), place) for place, name in enumerate(sorted(by_name))}
    subjects = others | {
        name: (list(SUBJECTS).index(subject), place) for subject, names in SUBJECTS.items() for place, name in enumerate(names)
    }
    sorter = TopologicalSorter(
        {
            table.name: [
                *(target for target, _ in table.references if target != table.name),
                # A view comes after everything that it names.
                *(by_name.keys() & set(re.findall(r"\w+", table.view or "")) - {table.name}),
            ]
            for table in tables
        }
    )
    sorter.prepare()
    ready: list[str] = []
    ordered: list[Table] = []
    while sorter.is_active():
        ready = sorted([*ready, *sorter.get_ready()], key=lambda name: subjects[name])
        ordered.append(by_name[ready.pop(0)])
        sorter.done(ordered[-1].name)
    return ordered
