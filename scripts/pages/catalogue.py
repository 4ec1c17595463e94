"""PostgreSQL's catalogue of a schema: tables, functions, sequences and grants, in a fixed order.

Definitions are PostgreSQL's own, in its readable form.
"""

import re
from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from operator import itemgetter

import asyncpg
from msgspec import Struct

from pixconnect.platform import privileges

SCHEMAS = ("pixconnect", "sandbox", "verify")

SUBJECTS: Mapping[str, Sequence[str]] = {
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
        "own_investment", "institution_item_part", "institution_day", "institution_callback", "institution_webhook_before",
        "institution_day_file",
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


class Column(Struct, frozen=True, kw_only=True):
    name: str
    type: str
    is_required: bool
    extra: str
    """The end of a column's definition: collation, default, identity."""
    comment: str | None


class Constraint(Struct, frozen=True, kw_only=True):
    name: str
    definition: str
    target: str | None
    """The table that a foreign key refers to."""
    columns: Sequence[str]


class Trigger(Struct, frozen=True, kw_only=True):
    definition: str
    function: str


class Grant(Struct, frozen=True, kw_only=True):
    role: str
    privilege: str
    columns: Sequence[str] = ()
    """The columns to which a grant is limited."""


class Table(Struct, frozen=True, kw_only=True):
    name: str
    comment: str | None
    ending: str
    """The end of a table's definition: partitioning, storage."""
    view: str | None
    """The query, if it is a view."""
    columns: Sequence[Column]
    constraints: Sequence[Constraint]
    indexes: Sequence[str]
    partitions: Sequence[tuple[str, str]]
    triggers: Sequence[Trigger]
    grants: Sequence[Grant]


class Function(Struct, frozen=True, kw_only=True):
    name: str
    arguments: str
    head: str
    body: str
    comment: str | None
    grants: Sequence[Grant]


class Schema(Struct, frozen=True, kw_only=True):
    name: str
    grants: Sequence[Grant]
    enums: Mapping[str, Sequence[str]]
    sequences: Sequence[tuple[str, str, Sequence[Grant]]]
    """Name, non-default options, and grants."""
    tables: Sequence[Table]
    """By subject; referenced tables come first."""
    functions: Sequence[Function]

    @property
    def by_name(self) -> Mapping[str, Table]:
        return {table.name: table for table in self.tables}


async def _read_schema(connection: asyncpg.Connection, name: str) -> Schema:
    """Read a schema as its owner; names are not qualified by it."""
    async with connection.transaction():
        await connection.execute(f"set local search_path = {name}")
        tables = [await _read_table(connection, row) for row in await connection.fetch(_TABLES, name)]
        return Schema(
            name=name,
            grants=await _read_grants(connection, _SCHEMA_GRANTS, name),
            enums={row["typname"]: row["labels"] for row in await connection.fetch(_ENUMS, name)},
            sequences=[
                (row["relname"], _sequence_options(row), await _read_grants(connection, _GRANTS, row["oid"]))
                for row in await connection.fetch(_SEQUENCES, name)
            ],
            tables=_in_order(tables, name),
            functions=[await _read_function(connection, row, name) for row in await connection.fetch(_FUNCTIONS, name)],
        )


_TABLES = """
    select oid, relname, obj_description(oid, 'pg_class') as comment, array_to_string(reloptions, ', ') as options,
        case relkind when 'p' then pg_get_partkeydef(oid) end as partitioned_by,
        case relkind when 'v' then pg_get_viewdef(oid, true) end as view
    from pg_class where relnamespace = $1::text::regnamespace and relkind in ('r', 'p', 'v') and not relispartition
    order by relname
"""
_COLUMNS = """
    select attname, format_type(atttypid, atttypmod) as type, attnotnull, col_description(attrelid, attnum) as comment,
        concat_ws(' ', case when attstorage <> typstorage then 'storage external' end,
            'collate "' || nullif(collname, 'default') || '"', 'default ' || pg_get_expr(adbin, adrelid, true),
            case attidentity when 'a' then 'generated always as identity' when 'd' then 'generated by default as identity' end
        ) as extra
    from pg_attribute join pg_type on pg_type.oid = atttypid
    left join pg_attrdef on adrelid = attrelid and adnum = attnum
    left join pg_collation on pg_collation.oid = attcollation
    where attrelid = $1 and attnum > 0 and not attisdropped order by attnum
"""
# Since PostgreSQL 18 `not null` is a constraint; here it stays with its column.
_CONSTRAINTS = """
    select conname, pg_get_constraintdef(oid, true) as definition, nullif(confrelid, 0)::regclass::text as target,
        array(select attname::text from pg_attribute where attrelid = conrelid and attnum = any (conkey)) as columns
    from pg_constraint where conrelid = $1 and contype not in ('n', 't')
    order by array_position('{p,u,x,c,f}', contype::text), conname
"""
_INDEXES = """
    select pg_get_indexdef(indexrelid, 0, true) as definition from pg_index
    join pg_class on pg_class.oid = indexrelid
    where indrelid = $1 and not exists (select from pg_constraint where conindid = indexrelid and contype in ('p', 'u', 'x'))
    order by relname
"""
_PARTITIONS = """
    select relname, pg_get_expr(relpartbound, pg_class.oid) as bounds from pg_inherits join pg_class on pg_class.oid = inhrelid
    where inhparent = $1 order by relname
"""
_TRIGGERS = """
    select pg_get_triggerdef(pg_trigger.oid, true) as definition, proname from pg_trigger join pg_proc on pg_proc.oid = tgfoid
    where tgrelid = $1 and not tgisinternal order by tgname
"""
_ENUMS = """
    select typname, array_agg(enumlabel::text order by enumsortorder) as labels from pg_enum
    join pg_type on pg_type.oid = enumtypid where typnamespace = $1::text::regnamespace group by 1 order by 1
"""
# A column's own sequence is created with the column.
_SEQUENCES = """
    select pg_class.oid, relname, format_type(seqtypid, null) as type, seqincrement, seqstart, seqmax, seqcycle
    from pg_sequence
    join pg_class on pg_class.oid = seqrelid
    where relnamespace = $1::text::regnamespace and not exists (
        select from pg_depend where classid = 'pg_class'::regclass and objid = seqrelid and deptype in ('i', 'a')
    )
    order by relname
"""
_FUNCTIONS = """
    select oid, proname, pg_get_function_identity_arguments(oid) as arguments, pg_get_functiondef(oid) as definition,
        obj_description(oid, 'pg_proc') as comment
    from pg_proc where pronamespace = $1::text::regnamespace
    order by proname, pg_get_function_identity_arguments(oid) collate "C"
"""
_SCHEMA_GRANTS = """
    select grantee::regrole::text as role, privilege_type as privilege, null::text as column_name, 0 as place
    from pg_namespace cross join aclexplode(nspacl) where nspname = $1 and grantee <> nspowner
"""
_GRANTS = """
    select grantee::regrole::text as role, privilege_type as privilege, null::text as column_name, 0 as place
    from pg_class cross join aclexplode(relacl) where oid = $1 and grantee <> relowner
    union all
    select grantee::regrole::text, privilege_type, attname, attnum
    from pg_class join pg_attribute on attrelid = pg_class.oid and not attisdropped cross join aclexplode(attacl)
    where pg_class.oid = $1 and grantee <> relowner
"""
_FUNCTION_GRANTS = """
    select grantee::regrole::text as role, privilege_type as privilege, null::text as column_name, 0 as place
    from pg_proc cross join aclexplode(proacl) where oid = $1 and grantee <> proowner
"""


async def read_migrated(owner_url: str, name: str) -> Schema:
    """Read a schema as `migrate` makes it, without the grants of each start."""
    connection = await asyncpg.connect(owner_url)
    trial = connection.transaction()
    try:
        await trial.start()
        await privileges.forbid_play(connection, "pixconnect")
        for kind in ("schema", "all tables in schema", "all sequences in schema", "all functions in schema"):
            await connection.execute(f"revoke all on {kind} pixconnect from {privileges.VERIFIER_ROLE}")
        found = await _read_schema(connection, name)
        await trial.rollback()
    finally:
        await connection.close()
    return found


async def _read_table(connection: asyncpg.Connection, row: asyncpg.Record) -> Table:
    oid = row["oid"]
    partitioned = f" partition by {row['partitioned_by']}" if row["partitioned_by"] else ""
    stored = f" with ({row['options']})" if row["options"] else ""
    return Table(
        name=row["relname"],
        comment=row["comment"],
        ending=_in_our_words(partitioned + stored),
        view=row["view"],
        columns=[
            Column(
                name=column["attname"], type=column["type"], is_required=column["attnotnull"],
                extra=_in_our_words(column["extra"]), comment=column["comment"],
            )
            for column in await connection.fetch(_COLUMNS, oid)
        ],
        constraints=[
            Constraint(
                name=found["conname"],
                definition=_in_our_words(found["definition"]),
                target=found["target"],
                columns=found["columns"],
            )
            for found in await connection.fetch(_CONSTRAINTS, oid)
        ],
        indexes=[
            _in_our_words(index["definition"]).replace(" on only ", " on ").replace(" using btree", "")
            for index in await connection.fetch(_INDEXES, oid)
        ],
        partitions=[
            (part["relname"], _in_our_words(part["bounds"])) for part in await connection.fetch(_PARTITIONS, oid)
        ],
        triggers=[
            Trigger(definition=_in_our_words(trigger["definition"]), function=trigger["proname"])
            for trigger in await connection.fetch(_TRIGGERS, oid)
        ],
        grants=await _read_grants(connection, _GRANTS, oid),
    )  # fmt: skip


async def _read_function(connection: asyncpg.Connection, row: asyncpg.Record, schema: str) -> Function:
    head, _, rest = row["definition"].partition("AS $function$")
    head = " ".join(_in_our_words(head.replace(f"{schema}.", "")).split()).replace("create or replace", "create", 1)
    return Function(
        name=row["proname"],
        arguments=row["arguments"],
        head=head,
        body=rest.removesuffix("\n").removesuffix("$function$"),
        comment=row["comment"],
        grants=await _read_grants(connection, _FUNCTION_GRANTS, row["oid"]),
    )


async def _read_grants(connection: asyncpg.Connection, statement: str, of: str | int) -> list[Grant]:
    columns: dict[tuple[str, str], list[str]] = {}
    # Sorted here, because PostgreSQL's order of text depends on the server's locale.
    for row in sorted(await connection.fetch(statement, of), key=itemgetter("role", "privilege", "place")):
        named = columns.setdefault((row["role"], row["privilege"].lower()), [])
        if row["column_name"]:
            named.append(row["column_name"])
    return [Grant(role=role, privilege=privilege, columns=named) for (role, privilege), named in columns.items()]


_SEQUENCES_END = (2**31 - 1, 2**63 - 1)
"""The objects of the given types."""


def _sequence_options(row: asyncpg.Record) -> str:
    options = {
        f" as {row['type']}": row["type"] != "bigint",
        f" increment {row['seqincrement']}": row["seqincrement"] != 1,
        f" start {row['seqstart']}": row["seqstart"] != 1,
        f" maxvalue {row['seqmax']}": row["seqmax"] not in _SEQUENCES_END,
        " cycle": row["seqcycle"],
    }
    return "".join(option for option, is_said in options.items() if is_said)


def _in_order(tables: Sequence[Table], schema: str) -> list[Table]:
    """By subject, and in each subject after the objects that they refer to."""
    by_name = {table.name: table for table in tables}
    subjects = {
        name: (list(SUBJECTS).index(subject), place)
        for subject, names in SUBJECTS.items()
        for place, name in enumerate(names)
    }
    if unknown := by_name.keys() - subjects.keys():
        raise AssertionError(f"say in SUBJECTS what these tables of {schema} are about: {unknown}")
    sorter = TopologicalSorter(
        {
            table.name: [
                *(each.target for each in table.constraints if each.target and each.target != table.name),
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


_SHORTER = (
    (r"= any \(array\[([^\]]*)\]\)", r"in (\1)"),
    (r"('(?:[^']|'')*')::text\b", r"\1"),
    (r"'(\d+)'::bigint", r"\1"),
)
_NOT_IN_QUOTES = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\b[A-Z]{2,}\b")


def _in_our_words(definition: str) -> str:
    """Lower-case PostgreSQL's keywords and remove its type casts, as in our SQL."""
    text = _NOT_IN_QUOTES.sub(lambda found: found[0] if found[0][0] in "'\"" else found[0].lower(), definition)
    for long, short in _SHORTER:
        text = re.sub(long, short, text)
    return text
