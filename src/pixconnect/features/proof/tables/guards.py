"""Rules of the installation: the tables' guards exist, and the server has the promised settings."""

from __future__ import annotations

from typing import Final, LiteralString

from pixconnect.features.proof.rules import Rule
from pixconnect.features.proof.tables.shape import SHAPE
from pixconnect.kernel.tables.installation import COUNTED, select_reach

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
