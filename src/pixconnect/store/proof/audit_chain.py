"""The chain of the audit, and the rules that compare it with the audit's rows.

The chain has a link for each row, in the order of ids. The rules compute each digest from the rows, as ``chain.py`` does for
entries: an owner of the tables who rewrites all hashes differs from every head that was kept elsewhere.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from pixconnect.domain.proof.rule import Rule
from pixconnect.foundation.pool import Connection, Pool

_rule: Final = partial(
    Rule,
    of="installation",
    todo="compare with a backup of before that, and ask the operators that the audit names: `pixconnect audit list`",
)
_REWRITTEN: Final = "somebody has rewritten what operators did, as the tables' owner"

AUDIT_CHAIN: Final = (
    # A changed link breaks the next one too, but none behind it.
    _rule(
        name="audit_chain_has_no_break",
        says="each link of the audit's chain follows from the one before, in the order of rows",
        broken="""
            select null::bigint as holder_id, array['link ' || position] as ids,
                case when audit_id <= id_before then 'a row behind ' || id_before
                    else encode(sha256(head_before || digest), 'hex') end as expected,
                case when audit_id <= id_before then 'audit ' || audit_id else encode(head, 'hex') end as found,
                chained_at as since
            from (
                select link.*, earlier.audit_id as id_before,
                    case when link.position = 1 then sha256('audit') else earlier.head end as head_before
                from audit_chain as link left join audit_chain as earlier on earlier.position = link.position - 1
            ) as following
            where head is distinct from sha256(head_before || digest) or audit_id <= id_before
            order by position
        """,
        is_of_whole_runs=True,
        meaning=_REWRITTEN
        + "; a link was changed, taken out, put in or moved, and the first one named is where it begins",
    ),
    # Ids only rise: an older row without a link was not there when its turn came.
    _rule(
        name="audit_is_as_chained",
        says="each row of the audit, up to the last one that was chained, is in the chain, and as it was then",
        broken="""
            select null::bigint as holder_id, array['audit ' || coalesce(audit_id, id), 'link ' || position] as ids,
                coalesce(encode(digest, 'hex'), 'a link') as expected,
                case
                    when id is null then 'no such row'
                    when audit_id is null then 'none'
                    when digest = sha256(convert_to(facts, 'UTF8') || person_digest) then 'another person'
                    else encode(sha256(convert_to(facts, 'UTF8') || person_digest), 'hex')
                end as found, chained_at as since
            from audit_chain full join audit_facts on id = audit_id
            where audit_id is null
                    and id <= greatest((select max(audit_id) from audit_chain), (select chained_id from audit_chain_state))
                or audit_id is not null and (
                    digest is distinct from sha256(convert_to(facts, 'UTF8') || person_digest)
                    or person_digest is distinct from sha256(salt || convert_to(person, 'UTF8'))
                )
            order by position, id
        """,
        is_of_whole_runs=True,
        meaning=_REWRITTEN
        + ", put a row in among older ones or taken a link out; the first one named is where it begins",
    ),
    # Without its row a chain stands still.
    _rule(
        name="chains_know_how_far_they_are",
        says="the chains of entries and of the audit have a row with the last id that was chained",
        broken="""
            select null::bigint as holder_id, array[kind] as ids, 'a row with the last id' as expected, null as found,
                null::timestamptz as since
            from (
                select 'entries' as kind where not exists (select from entry_chain_state)
                union all
                select 'audit' where not exists (select from audit_chain_state)
            ) as missing
        """,
        meaning="somebody has stopped the chain by hand: it does not grow any more",
        todo="put the row back, with the last link's last id, into entry_chain_state or audit_chain_state; look with --whole",
    ),
)


async def chain_audit(pool: Pool, count_max: int) -> int:
    """Chain rows, the oldest first; returns how many, 0 also while another session chains."""
    return await pool.fetchval("select chain_audit($1) where refuse_old_session()", count_max)


async def count_unchained(connection: Connection) -> int:
    """How many rows wait to be chained."""
    return await connection.fetchval(
        "select count(*) from audit where id > coalesce((select chained_id from audit_chain_state), 0)"
    )
