"""Compares the schemas with their source: one digest for each table, sequence, type and function.

``shape.json`` has the digests of a new installation; ``make docs`` writes it. They are the same on PostgreSQL 16 to 18 and
after a restore: the short form of a definition, which PostgreSQL prints here, has no redundant parentheses.

Left out are the grants that each start makes, since they depend on the mode, and partitions, which come and go while the
service runs: a partition is listed only if it was changed by hand.

Rules of the installation compare the shape, the tables' guards and the server's settings with what is promised.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final, LiteralString

import asyncpg
import msgspec

from pixconnect.kernel.rules.proof import Finding, Rule
from pixconnect.kernel.tables.installation import COUNTED, select_reach
from pixconnect.platform.pool import Connection

FILE_NAME: Final = "shape.json"
SOURCES: Final[Mapping[LiteralString, str]] = {
    "pixconnect": "pixconnect/kernel/schema and pixconnect/features/*/schema.sql",
    "verify": "pixconnect/features/proof/tables/schema",
}
"""The schemas, each with its source. The sandbox's is left out, since it has only test data."""

SHAPE: Final = Rule(
    name="tables_are_as_made",
    says="each table, sequence, type and function is as the source makes it, with its constraints, triggers and grants",
    of="installation",
    meaning="the tables were changed, a guard was disabled or a right was granted by hand",
    todo="find out who logged in as the owner; compare it with the source, restore it, and run `verify --whole`",
)

# Each row is one line of one object. `$1` is the schema, `$2` has the partitions that retention detached and has not dropped
# yet, and `$3` stands before the names of objects.
_LINES: Final[LiteralString] = """
    with relation as (
        -- A sequence of a column belongs to its table.
        select pg_class.*, pg_class.oid as id, case when relkind = 'S' and refobjid is null then 'sequence ' else 'table ' end
            || $3::text || coalesce((select relname from pg_class where oid = refobjid), relname) as object
        from pg_class
        left join pg_depend
            on classid = 'pg_class'::regclass and objid = pg_class.oid and relkind = 'S' and deptype in ('a', 'i')
        where relnamespace = $1::text::regnamespace and relkind in ('r', 'p', 'S', 'v', 'm', 'f')
            and relname <> all ($2::text[])
    ),
    own as (select * from relation where not relispartition),
    routine as (
        select *, oid as id, format('function %s%s(%s)', $3, proname, pg_get_function_identity_arguments(oid)) as object
        from pg_proc where pronamespace = $1::text::regnamespace
    ),
    owned as (
        select object, relowner as owner from relation
        union all select object, proowner from routine
    ),
    granted as (
        select object, relname::text as name, grantee, privilege_type
        from relation cross join aclexplode(relacl) where grantee <> relowner
        union all
        select object, relname || '.' || attname, grantee, privilege_type
        -- PostgreSQL 16 keeps the grants of dropped columns.
        from relation join pg_attribute on attrelid = id and not attisdropped cross join aclexplode(attacl)
        where grantee <> relowner
        union all
        select object, proname || '()', grantee, privilege_type
        from routine cross join aclexplode(coalesce(proacl, acldefault('f', proowner))) where grantee <> proowner
        union all
        select 'schema ' || $1, 'schema', grantee, privilege_type
        from pg_namespace cross join aclexplode(nspacl) where oid = $1::text::regnamespace and grantee <> nspowner
        union all
        select 'schema ' || $1, 'what comes', grantee, privilege_type
        from pg_default_acl cross join aclexplode(defaclacl)
        where defaclnamespace = $1::text::regnamespace and grantee <> defaclrole
    )
    select object, concat_ws(' ', 'kind', relkind, reloptions) as line from own
    union all
    select object, 'unlogged' from relation where relpersistence <> 'p'
    union all
    select object, 'row security' from relation where relrowsecurity or relforcerowsecurity
    union all
    select object, format('inherited by %s', inhrelid::regclass)
    from own join pg_inherits on inhparent = id join pg_class as child on child.oid = inhrelid where not child.relispartition
    union all
    select object, concat_ws(' ', 'column', attname, format_type(atttypid, atttypmod), attnotnull, attidentity::text,
        pg_get_expr(adbin, adrelid, true))
    from own join pg_attribute on attrelid = id and attnum > 0 and not attisdropped
    left join pg_attrdef on adrelid = attrelid and adnum = attnum where relkind <> 'S'
    union all
    -- PostgreSQL 18 lists `not null` as constraints too.
    select object, format('constraint %s %s', conname, pg_get_constraintdef(pg_constraint.oid, true))
    from own join pg_constraint on conrelid = id where contype not in ('n', 't')
    union all
    select object, format('index %s', pg_get_indexdef(indexrelid, 0, true)) from own join pg_index on indrelid = id
    union all
    select object, format('index %s NOT VALID', indexrelid::regclass)
    from relation join pg_index on indrelid = id where not (indisvalid and indisready)
    union all
    select object, format('trigger %s', pg_get_triggerdef(pg_trigger.oid, true))
    from relation join pg_trigger on tgrelid = id where not tgisinternal and tgparentid = 0
    union all
    select object,
        format('trigger %s %s', coalesce(conname, tgname), case tgenabled when 'D' then 'OFF' else tgenabled::text end)
    from relation join pg_trigger on tgrelid = id left join pg_constraint on pg_constraint.oid = tgconstraint
    where tgenabled <> 'O'
    union all
    select object, format('rule %s', pg_get_ruledef(pg_rewrite.oid, true)) from relation join pg_rewrite on ev_class = id
    union all
    select object, format('policy %s %s', polname, pg_get_expr(polqual, polrelid, true))
    from relation join pg_policy on polrelid = id
    union all
    select object, concat_ws(' ', relname, seqincrement, seqmin, seqmax, seqcache, seqcycle)
    from own join pg_sequence on seqrelid = id
    union all
    -- PostgreSQL has no definition of an aggregate.
    select object, case prokind when 'a' then 'aggregate' else pg_get_functiondef(id) end from routine
    union all
    select format('type %s%s', $3, typname), string_agg(enumlabel, ' ' order by enumsortorder)
    from pg_type join pg_enum on enumtypid = pg_type.oid where typnamespace = $1::text::regnamespace group by typname
    union all
    select object, format('owner %s', owner::regrole)
    from owned join pg_namespace on pg_namespace.oid = $1::text::regnamespace where owner <> nspowner
    union all
    select object, format('%s may %s %s', coalesce(rolname, 'everybody'), privilege_type, name)
    from granted left join pg_roles on pg_roles.oid = grantee
    where not coalesce(
        rolname = 'pixconnect_funding'
            and (privilege_type, name) in (('INSERT', 'deposit'), ('EXECUTE', 'open_sandbox_holder()'), ('USAGE', 'schema'))
        or rolname = 'pixconnect_verifier' and (
            (privilege_type, name) in (('USAGE', 'schema'), ('EXECUTE', 'refuse_old_session()'))
            or privilege_type = 'SELECT' and (
                name like '%.%' and name !~ '(_|\\.)(sealed|secret|hash|hashes)$'
                or $1 = 'verify' or name in (select relname from relation where relkind = 'S')
            )
        ), false
    )
"""
# Roles belong to the whole server. These lines appear only if one of our roles has more than the installation grants.
_ROLES: Final[LiteralString] = """
    select 'roles' as object, format('%s may be %s', member.rolname, granted.rolname) as line
    from pg_auth_members
    join pg_roles as member on member.oid = pg_auth_members.member
    join pg_roles as granted on granted.oid = roleid
    where member.rolname ~ '^pixconnect_(service|operator|console|funding|verifier)$'
        and (member.rolname, granted.rolname) not in (
            ('pixconnect_operator', 'pixconnect_service'), ('pixconnect_console', 'pixconnect_service'),
            ('pixconnect_operator', 'pixconnect_console')
        )
    union all
    select 'roles', rolname || ' may do what no other may' from pg_roles
    where rolname ~ '^pixconnect_(service|operator|console|funding|verifier)$'
        and (rolsuper or rolcreaterole or rolcreatedb or rolreplication or rolbypassrls or rolcanlogin)
    union all
    -- A login with one of our roles that may also become the owner of the tables.
    select 'roles', format('%s may be %s', login.rolname, owner.rolname)
    from pg_namespace join pg_roles as owner on owner.oid = nspowner
    join pg_roles as login on login.oid <> owner.oid and not login.rolsuper and pg_has_role(login.oid, owner.oid, 'MEMBER')
    where nspname = 'pixconnect' and exists (
        select from pg_auth_members join pg_roles as ours on ours.oid = roleid
        where member = login.oid and ours.rolname ~ '^pixconnect_(service|operator|console|funding|verifier)$'
    )
    union all
    -- This parameter switches triggers off.
    select 'roles', format('%s may %s session_replication_role', coalesce(rolname, 'everybody'), privilege_type)
    from pg_parameter_acl cross join aclexplode(paracl) left join pg_roles on pg_roles.oid = grantee
    where parname = 'session_replication_role' and rolsuper is not true
    union all
    select 'roles', format('%s has session_replication_role', coalesce(rolname, 'everybody'))
    from pg_db_role_setting left join pg_roles on pg_roles.oid = setrole
    where array_to_string(setconfig, ' ') like '%session_replication_role=%'
        and setdatabase in (0, (select oid from pg_database where datname = current_database()))
"""
_DETACHED: Final[LiteralString] = "select name from event_partition where detached_at is not null"
_ROWS: Final[Mapping[str, LiteralString]] = {
    "rows of allowed_posting": """
        select concat_ws(' ', kind, direction, is_book, status, debit_account, credit_account, made_by)
        from allowed_posting
    """,
    "rows of allowed_transition": """
        select concat_ws(' ', kind, direction, is_book, before, after, made_by) from allowed_transition
    """,
}

_SHOWN_MAX: Final = 500

Shape = Mapping[str, str]
"""The digest of each object. Objects outside of the schema ``pixconnect`` have their schema in their name."""


async def read_shape(connection: Connection) -> Shape:
    return {name: _digest(lines) for name, lines in sorted((await _read_lines(connection)).items())}


async def find_changed(connection: Connection) -> list[Finding]:
    """Differences from the source, by object."""
    lines = await _read_lines(connection)
    expected = _read_expected()
    sources = {name: SOURCES["verify" if "verify" in name else "pixconnect"] for name in expected}
    return [
        Finding(
            rule=SHAPE.name,
            ids=(name,),
            expected=f"{expected[name]}, the digest of {sources[name]}" if name in expected else None,
            found=_describe(lines[name], is_ours=name in expected) if name in lines else None,
        )
        for name in sorted(lines.keys() | expected.keys())
        if name not in lines or _digest(lines[name]) != expected.get(name)
    ]


async def _read_lines(connection: Connection) -> Mapping[str, Sequence[str]]:
    detached = await _read_rows(connection, _DETACHED)
    found: dict[str, list[str]] = defaultdict(list)
    for row in await connection.fetch(_ROLES):
        found[row["object"]].append(row["line"])
    for schema in SOURCES:
        before = "" if schema == "pixconnect" else f"{schema}."
        for row in await connection.fetch(_LINES, schema, detached, before):
            found[row["object"]].append(re.sub(rf"\b{schema}\b\.?", "", row["line"]))
    for name, statement in _ROWS.items():
        if lines := await _read_rows(connection, statement):
            found[name] = lines
    return found


async def _read_rows(connection: Connection, statement: str) -> list[str]:
    """Read the rows, or none if the table is gone: the table itself is a finding then."""
    try:
        return [line for (line,) in await connection.fetch(statement)]
    except asyncpg.UndefinedTableError:
        return []


def _digest(lines: Sequence[str]) -> str:
    return sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]


def _describe(lines: Sequence[str], *, is_ours: bool) -> str:
    """Describe one of our objects by its digest, with each disabled guard; an unexpected object by all lines."""
    shown = [_digest(lines), *(line for line in lines if line.endswith((" OFF", " NOT VALID")))] if is_ours else lines
    return "; ".join(sorted(shown))[:_SHOWN_MAX]


@cache
def _read_expected() -> Shape:
    return msgspec.json.decode(files("pixconnect.features.proof.tables").joinpath(FILE_NAME).read_bytes(), type=Shape)


def write_shape(shape: Shape) -> str:
    return msgspec.json.format(msgspec.json.encode(shape), indent=1).decode() + "\n"


_SET_BACK: Final[LiteralString] = " union all ".join(
    f"""
    select null::bigint as holder_id, array['sequence {counted.sequence}'] as ids, 'above ' || taken as expected,
        next::text as found, null::timestamptz as since
    from ({select_reach(counted)}) as reach where taken >= next
    """
    for counted in COUNTED
)
# Each of these tables has exactly one row.
_ONE_ROW: Final[LiteralString] = " union all ".join(
    f"select '{table}' as name, count(*) as rows_count from {table}"
    for table in ("access_revision", "clock", "event_feed_state", "installation", "partition_pass")
)
GUARDS: Final = (
    SHAPE,
    Rule(
        name="live_has_no_play_money",
        says="in live mode no role may put play money into accounts",
        broken="""
            select null::bigint as holder_id, array['insert on deposit'] as ids, 'not granted' as expected, 'granted' as found,
                null::timestamptz as since
            where {runs_on} and has_table_privilege('pixconnect_funding', 'deposit', 'insert')
        """,
        of="installation",
        meaning="a start was interrupted, or the right was granted by hand",
        todo="start the service once: it revokes that; then find out who granted it",
    ),
    Rule(
        name="installation_is_known",
        says="the tables record their purpose, the environment of their accounts, and the service's progress",
        broken="""
            select null::bigint as holder_id, array['row of ' || name] as ids, '1' as expected, rows_count::text as found,
                null::timestamptz as since
            from ("""
        + _ONE_ROW
        + """) as counted where rows_count <> 1
            union all
            select null, array['environment of ' || institution_account.name], installation.environment,
                institution_account.environment, institution_account.created_at
            from institution_account cross join installation
            where institution_account.environment is distinct from installation.environment
            union all
            select null, array['mode'], 'live', mode, made_at from installation
            where mode <> 'live' and exists (select from institution_account)
        """,
        of="installation",
        meaning="the setting that decides whether money is play money was written by hand, or lost",
        todo="put the row back from a backup before anything is started: without it a start takes the mode of its settings",
    ),
    Rule(
        name="sequences_are_ahead",
        says="no sequence gives out an id that is taken",
        broken=_SET_BACK,
        of="installation",
        meaning="a sequence was set back: new things may get ids of others, which the tables then refuse",
        todo="restart every process: each skips ids when it meets a server; if the finding remains, move it ahead as the owner",
    ),
    Rule(
        name="partitions_are_known",
        says="each partition of events, deliveries and the feed is known, and hangs on its table",
        broken="""
            select null::bigint as holder_id, array['partition ' || coalesce(known.name, hanging.name)] as ids,
                known.parent as expected, hanging.parent as found, null::timestamptz as since
            from (select name, parent from event_partition where detached_at is null) as known
            full join (
                select part.relname::text as name, parent.relname::text as parent from pg_inherits
                join pg_class as part on part.oid = inhrelid
                join pg_class as parent on parent.oid = inhparent
                where parent.oid in ('event'::regclass, 'delivery'::regclass, 'event_feed'::regclass) and parent.relkind = 'p'
            ) as hanging on hanging.name = known.name and hanging.parent = known.parent
            where known.name is null or hanging.name is null
        """,
        of="installation",
        meaning="a partition was dropped or taken off by hand, with every event in it, or one was made by hand",
        todo="put it back from a backup; one that is only unknown is adopted by the next pass of a worker",
    ),
    Rule(
        name="server_keeps_what_it_wrote",
        says="the server has written to the disk before it answers",
        broken="""
            select null::bigint as holder_id, array['setting ' || name] as ids, 'on' as expected, setting as found,
                null::timestamptz as since
            from pg_settings where name in ('fsync', 'full_page_writes', 'synchronous_commit') and setting = 'off'
        """,
        of="server",
        meaning="confirmed data are lost if the machine stops",
        todo="set it on and restart the server",
    ),
    Rule(
        name="pages_are_as_written",
        says="no page was read from the disk other than it was written",
        broken="""
            select null::bigint as holder_id, array['database ' || datname] as ids, '0' as expected,
                checksum_failures::text as found, checksum_last_failure as since
            from pg_stat_database where datname = current_database() and checksum_failures > 0
        """,
        why_not="""
            select 'the server keeps no checksums of its pages: `pg_checksums --enable` while it is stopped'
            where current_setting('data_checksums') = 'off'
        """,
        of="server",
        meaning="the disk, its controller or the memory changed written data",
        todo="stop the service, and restore a backup on another disk; `pg_amcheck` lists other damage",
    ),
)
