"""The chains of the audit and of kept reports, of the whole installation, and the rules that hold them against their rows.

A chain has a link for each row, in the order of their ids. As with entries nothing is believed of a link but what follows from
the rows, and who writes all of it anew differs from every head that was kept elsewhere (``chain.py``).
"""

from __future__ import annotations

from typing import Final, LiteralString

from pixconnect.domain.proof.rule import Rule
from pixconnect.foundation.pool import Connection, Pool

_REWRITTEN: Final = "somebody has rewritten what operators did or what was reported, as the tables' owner"
_COMPARE: Final = "compare with a backup of before that, and ask whom the audit names: `pixconnect audit list`"

RECORDS: Final = (
    # Where one link was changed the next does not follow any more, but those behind it do.
    Rule(
        name="chain_of_records_has_no_break",
        says="each link of the audit's chain, and of that of kept reports, follows from the one before, in the order of rows",
        broken="""
            select null::bigint as holder_id, array[kind, 'link ' || position] as ids,
                case when record_id <= id_before then 'a row behind ' || id_before
                    else encode(sha256(head_before || digest), 'hex') end as expected,
                case when record_id <= id_before then kind || ' ' || record_id else encode(head, 'hex') end as found,
                chained_at as since
            from (
                select link.*, earlier.record_id as id_before,
                    case when link.position = 1 then sha256(convert_to(link.kind, 'UTF8')) else earlier.head end as head_before
                from record_chain as link
                left join record_chain as earlier on earlier.kind = link.kind and earlier.position = link.position - 1
            ) as following
            where head is distinct from sha256(head_before || digest) or record_id <= id_before
            order by kind, position
        """,
        of="installation",
        is_of_whole_runs=True,
        meaning=_REWRITTEN
        + "; a link was changed, taken out, put in or moved, and the first one named is where it begins",
        todo=_COMPARE,
    ),
    Rule(
        name="records_are_as_chained",
        says="each row of the audit, and each kept report, is as it was when it was chained",
        broken="""
            select null::bigint as holder_id, array[chained.kind || ' ' || record_id, 'link ' || position] as ids,
                encode(digest, 'hex') as expected,
                case
                    when facts is null then 'no such row'
                    when digest = sha256(convert_to(facts, 'UTF8') || person_digest) then 'somebody else, or no salt'
                    else encode(sha256(convert_to(facts, 'UTF8') || person_digest), 'hex')
                end as found, chained_at as since
            from record_chain as chained
            left join record_salt using (kind, position)
            left join record_facts as stands on stands.kind = chained.kind and stands.id = record_id
            where digest is distinct from sha256(convert_to(facts, 'UTF8') || person_digest)
                or person_digest is distinct from sha256(salt || convert_to(person, 'UTF8'))
            order by chained.kind, position
        """,
        of="installation",
        is_of_whole_runs=True,
        meaning=_REWRITTEN + "; the first row named is where it begins",
        todo=_COMPARE,
    ),
    # Without it the chain stands still, and says so to nobody.
    Rule(
        name="chains_know_how_far_they_are",
        says="each chain knows up to where it goes",
        broken="""
            select null::bigint as holder_id, array[kind] as ids, 'a row that says up to where' as expected, null as found,
                null::timestamptz as since
            from unnest('{entries,audit,report}'::text[]) as each (kind)
            where not exists (select from record_chain_state as state where state.kind = each.kind)
                and (kind <> 'entries' or not exists (select from entry_chain_state))
        """,
        of="installation",
        meaning="somebody has stopped the chain by hand: what is written since is in none",
        todo="put the row back, with the last link's last id, into entry_chain_state or record_chain_state; look with --whole",
    ),
    # Ids only rise: what is older than the last one that was chained and in no link was not there when it was its turn.
    Rule(
        name="records_are_chained",
        says="each row of the audit, and each kept report, up to the last one that was chained is in its chain",
        broken="""
            select null::bigint as holder_id, array[stands.kind || ' ' || id] as ids, 'a link' as expected, 'none' as found,
                at as since
            from (
                select 'audit' as kind, id, at from audit
                union all
                select 'report', id, first_seen_at from kept_report
            ) as stands
            join (
                select kind, max(record_id) as chained_id
                from (
                    select kind, record_id from record_chain union all select kind, chained_id from record_chain_state
                ) as each
                group by kind
            ) as state on state.kind = stands.kind and id <= chained_id
            where not exists (select from record_chain as link where link.kind = stands.kind and record_id = id)
            order by stands.kind, id
        """,
        of="installation",
        is_of_whole_runs=True,
        meaning="a row was put in by hand among older ones, or links were taken out",
        todo=_COMPARE,
    ),
)

_CHAIN: Final[LiteralString] = "select chain_records($1) where refuse_old_session()"


async def chain_records(pool: Pool, count_max: int) -> int:
    """Chain rows of both kinds, at most so many of each; answers how many, 0 also while somebody else does it."""
    return await pool.fetchval(_CHAIN, count_max)


# Read behind the last one that is chained, as of entries.
_COUNT_UNCHAINED: Final[LiteralString] = """
    select (select count(*) from audit where id > coalesce((select chained_id from record_chain_state where kind = 'audit'), 0))
        + (select count(*) from kept_report
            where id > coalesce((select chained_id from record_chain_state where kind = 'report'), 0))
"""


async def count_unchained_records(connection: Connection) -> int:
    """How many rows wait to be chained."""
    return await connection.fetchval(_COUNT_UNCHAINED)
