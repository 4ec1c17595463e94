"""What our schemas consist of: each thing in them that decides what may stand in the tables, and who may do what with them.

``shape.json`` has what the migrations make, so that what somebody changed by hand is found. Partitions come and go while the
service runs, and ``not null`` stands among the constraints since PostgreSQL 18 only, so neither is told.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final, LiteralString

import msgspec

from pixconnect.foundation.pool import Connection

Shape = dict[str, dict[str, dict[str, str]]]
"""By schema, kind and name: the digest of a definition, or those of both ways in which PostgreSQL says it."""

FILE_NAME: Final = "shape.json"
SCHEMAS: Final[tuple[LiteralString, ...]] = ("pixconnect", "verify")
"""The sandbox's is left out: what is in it is play."""

# Names stand without their schema's. What the preparation grants at each start depends on the mode, so it is left out, but for
# what it never grants.
_SHAPE: Final[LiteralString] = r"""(
    with every as (
        select * from pg_class
        where relnamespace = {schema}::regnamespace and relkind in ('r', 'p', 'S', 'v', 'm', 'f')
    ),
    own as (
        select * from every where not relispartition
            -- What retention has taken off and has not dropped yet is on its way out.
            and not exists (select from {of_partitions} as event_partition where name = relname and detached_at is not null)
    ),
    grants as (
        select relname as name, grantee, privilege_type from every cross join aclexplode(relacl) where grantee <> relowner
        union all
        select relname || '.' || attname, grantee, privilege_type
        -- PostgreSQL 16 keeps the grants of dropped columns.
        from every join pg_attribute on attrelid = every.oid and not attisdropped cross join aclexplode(attacl)
        where grantee <> relowner
        union all
        select proname || '()', grantee, privilege_type
        from pg_proc cross join aclexplode(coalesce(proacl, acldefault('f', proowner)))
        where pronamespace = {schema}::regnamespace and grantee <> proowner
        union all
        select 'schema', grantee, privilege_type
        from pg_namespace cross join aclexplode(nspacl) where oid = {schema}::regnamespace and grantee <> nspowner
    ),
    line as (
        select 'table' as kind, relname::text as name, format('%s, row security %s', relkind, relrowsecurity) as text from own
        where relkind <> 'S'
        union all
        -- What only a hand makes: what a crash empties, rows that come from elsewhere, a view that reads as somebody else.
        select 'table', relname || ' unlogged', '' from every where relpersistence <> 'p'
        union all
        select 'table', relname || ' with options', array_to_string(reloptions, ' ')
        from own where relkind = 'v' and reloptions is not null
        union all
        select 'table', format('%s inherits %s', inhrelid::regclass, own.relname), ''
        from own join pg_inherits on inhparent = own.oid join pg_class as child on child.oid = inhrelid
        where not child.relispartition
        union all
        select 'table', relname || ' with row security', '' from every
        where relforcerowsecurity or relispartition and relrowsecurity
        union all
        select 'column', relname || '.' || attname,
            concat_ws(' ', format_type(atttypid, atttypmod), attnotnull, attidentity::text, pg_get_expr(adbin, adrelid))
        from own join pg_attribute on attrelid = own.oid and attnum > 0 and not attisdropped
        left join pg_attrdef on adrelid = attrelid and adnum = attnum
        where relkind <> 'S'
        union all
        select 'constraint', relname || '.' || conname, pg_get_constraintdef(pg_constraint.oid)
        from own join pg_constraint on conrelid = own.oid where contype not in ('n', 't')
        union all
        select 'index', class.relname,
            format('%s%s', pg_get_indexdef(indexrelid), case when not (indisvalid and indisready) then ' NOT VALID' end)
        from own join pg_index on indrelid = own.oid join pg_class as class on class.oid = indexrelid
        union all
        select 'trigger', relname || '.' || tgname,
            pg_get_triggerdef(pg_trigger.oid) || case tgenabled when 'O' then '' else ' ENABLED ' || tgenabled::text end
        from own join pg_trigger on tgrelid = own.oid where not tgisinternal
        union all
        -- Partitions have their table's triggers. Those of foreign keys are PostgreSQL's own: only a superuser stops them.
        select 'trigger', format('%s.%s of PostgreSQL', relname, conname), string_agg(tgenabled::text, '')
        from every join pg_trigger on tgrelid = every.oid join pg_constraint on pg_constraint.oid = tgconstraint
        where tgisinternal and tgenabled <> 'O' group by relname, conname
        union all
        select 'trigger', relname || '.' || tgname, tgenabled::text
        from every join pg_trigger on tgrelid = every.oid
        where relispartition and not tgisinternal and (tgparentid = 0 or tgenabled <> 'O')
        union all
        select 'index', class.relname, 'NOT VALID'
        from every join pg_index on indrelid = every.oid join pg_class as class on class.oid = indexrelid
        where every.relispartition and not (indisvalid and indisready)
        union all
        select 'function', format('%s(%s)', proname, pg_get_function_identity_arguments(oid)),
            -- Of an aggregate PostgreSQL tells no definition, but an error.
            case prokind when 'a' then 'aggregate' else pg_get_functiondef(oid) end
        from pg_proc where pronamespace = {schema}::regnamespace
        union all
        select 'sequence', relname, concat_ws(' ', seqincrement, seqmin, seqmax, seqcache, seqcycle)
        from own join pg_sequence on seqrelid = own.oid
        union all
        select 'enum', typname || '.' || enumlabel, '' from pg_type join pg_enum on enumtypid = pg_type.oid
        where typnamespace = {schema}::regnamespace
        union all
        select 'rule', relname || '.' || rulename, pg_get_ruledef(pg_rewrite.oid)
        from every join pg_rewrite on ev_class = every.oid
        union all
        select 'policy', relname || '.' || polname, coalesce(pg_get_expr(polqual, polrelid), '')
        from every join pg_policy on polrelid = every.oid
        union all
        select 'owner', relname, relowner::regrole::text
        from every join pg_namespace as namespace on namespace.oid = {schema}::regnamespace where relowner <> nspowner
        union all
        select 'owner', proname || '()', proowner::regrole::text
        from pg_proc join pg_namespace as namespace on namespace.oid = pronamespace
        where pronamespace = {schema}::regnamespace and proowner <> nspowner
        union all
        select 'grant', format('%s may %s %s', coalesce(rolname, 'everybody'), privilege_type, name), ''
        from grants left join pg_roles on pg_roles.oid = grantee
        where not coalesce(
            rolname = 'pixconnect_funding'
                and (privilege_type, name) in (('INSERT', 'deposit'), ('EXECUTE', 'open_sandbox_holder()'), ('USAGE', 'schema'))
            or rolname = 'pixconnect_verifier' and (
                (privilege_type, name) in (('USAGE', 'schema'), ('EXECUTE', 'refuse_old_session()'))
                or privilege_type = 'SELECT' and (
                    name like '%.%' and name !~ '(_|\.)(sealed|secret|hash|hashes)$'
                    or {schema} = 'verify' or name in (select relname from own where relkind = 'S')
                )
            ), false
        )
        union all
        select 'grant', format('%s may %s what comes', coalesce(rolname, 'everybody'), privilege_type), ''
        from pg_default_acl cross join aclexplode(defaclacl) left join pg_roles on pg_roles.oid = grantee
        where defaclnamespace = {schema}::regnamespace and grantee <> defaclrole
    )
    select {schema} as schema, kind, name, regexp_replace(text, '\m' || {schema} || '\M\.?', '', 'g') as text from line
)"""
_CLOSED_LISTS: Final[LiteralString] = """
    select 'pixconnect', 'posting',
        concat_ws(' ', kind, direction, is_book, status, debit_account, credit_account, made_by), ''
    from {of_postings} as allowed_posting
    union all
    select 'pixconnect', 'transition', concat_ws(' ', kind, direction, is_book, before, after, made_by), ''
    from {of_transitions} as allowed_transition
"""
# Roles are the whole server's. Logins have names of the operator's own; ours are nobody else beside what is granted here.
_ROLES: Final[LiteralString] = """
    select 'pixconnect' as schema, 'grant' as kind, format('%s may be %s', member.rolname, granted.rolname) as name, '' as text
    from pg_auth_members
    join pg_roles as member on member.oid = pg_auth_members.member
    join pg_roles as granted on granted.oid = roleid
    where member.rolname ~ '^pixconnect_(service|operator|console|funding|verifier)$'
        and (member.rolname, granted.rolname) not in (
            ('pixconnect_operator', 'pixconnect_service'), ('pixconnect_console', 'pixconnect_service'),
            ('pixconnect_operator', 'pixconnect_console')
        )
    union all
    select 'pixconnect', 'grant', rolname || ' may do what no other may', '' from pg_roles
    where rolname ~ '^pixconnect_(service|operator|console|funding|verifier)$'
        and (rolsuper or rolcreaterole or rolcreatedb or rolreplication or rolbypassrls or rolcanlogin)
    union all
    -- It keeps triggers from being called.
    select 'pixconnect', 'grant',
        format('%s may %s session_replication_role', coalesce(rolname, 'everybody'), privilege_type), ''
    from pg_parameter_acl cross join aclexplode(paracl) left join pg_roles on pg_roles.oid = grantee
    where parname = 'session_replication_role' and rolsuper is not true
    union all
    select 'pixconnect', 'grant', format('%s has session_replication_role', coalesce(rolname, 'everybody')), ''
    from pg_db_role_setting left join pg_roles on pg_roles.oid = setrole
    where array_to_string(setconfig, ' ') like '%session_replication_role=%'
        and setdatabase in (0, (select oid from pg_database where datname = current_database()))
"""
_MIGRATIONS: Final[LiteralString] = " union all ".join(
    f"select '{schema}', 'migration', format('%s %s', version, name), checksum from {{of_{schema}}} as schema_version"
    for schema in SCHEMAS
)
SHAPE_SQL: Final[LiteralString] = " union all ".join(
    [
        *(_SHAPE.replace("{schema}", f"'{schema}'") for schema in SCHEMAS),
        _ROLES,
        _CLOSED_LISTS,
        _MIGRATIONS,
    ]
)
"""Selects ``schema``, ``kind``, ``name`` and ``text`` of each thing that is there now, once ``fit_shape`` has fitted it."""

# What it reads beside PostgreSQL's own tables, and what stands for one that was dropped: the rest is told all the same.
_NO_STEPS: Final[LiteralString] = "(select 0 as version, '' as name, '' as checksum where false)"
_READ_BESIDE: Final[dict[str, tuple[LiteralString, LiteralString]]] = {
    "{of_pixconnect}": ("pixconnect.schema_version", _NO_STEPS),
    "{of_verify}": ("verify.schema_version", _NO_STEPS),
    "{of_partitions}": ("pixconnect.event_partition", "(select ''::name as name, now() as detached_at where false)"),
    "{of_postings}": (
        "pixconnect.allowed_posting",
        """(
            select '' as kind, '' as direction, true as is_book, '' as status, '' as debit_account, '' as credit_account,
                '' as made_by
            where false
        )""",
    ),
    "{of_transitions}": (
        "pixconnect.allowed_transition",
        """(
            select '' as kind, '' as direction, true as is_book, '' as before, '' as after, '' as made_by where false
        )""",
    ),
}
_IS_THERE: Final[LiteralString] = "select to_regclass($1) is not null"


async def fit_shape(connection: Connection, sql: str) -> str:
    """Let what asks for the shape read those of its tables that are there."""
    for place, (table, instead) in _READ_BESIDE.items():
        if place in sql:
            sql = sql.replace(place, table if await connection.fetchval(_IS_THERE, table) else instead)
    return sql


_READ: Final[LiteralString] = f"""
    select schema, kind, name, left(md5(text), 12) as digest from ({SHAPE_SQL}) as shape
    order by schema, kind, name collate "C"
"""


async def read_shape(connection: Connection) -> Shape:
    """What the schemas consist of now."""
    found: Shape = {}
    for row in await connection.fetch(await fit_shape(connection, _READ)):
        found.setdefault(row["schema"], {}).setdefault(row["kind"], {})[row["name"]] = row["digest"]
    return found


@cache
def read_expected() -> str:
    """What the migrations make: a ``Shape`` as JSON."""
    return files("pixconnect.store.proof").joinpath(FILE_NAME).read_text(encoding="utf-8")


def write_shape(made: Shape, restored: Shape) -> str:
    """The file: the digest of each thing as migrations make it, and behind it the one as a restore does, if that is another."""
    both = {
        schema: {
            kind: {name: _join(digest, restored[schema].get(kind, {}).get(name)) for name, digest in things.items()}
            for kind, things in kinds.items()
        }
        for schema, kinds in made.items()
    }
    return msgspec.json.format(msgspec.json.encode(both), indent=1).decode() + "\n"


def _join(made: str, restored: str | None) -> str:
    return made if restored in (None, made) else f"{made} {restored}"
