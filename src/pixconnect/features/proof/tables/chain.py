"""The chain of each holder's entries, and the rules that compare it with the entries and with recorded heads.

The rules compute each digest from the present tables, and trust a link only as far as it follows from them. Rewriting history
together with all later links breaks no link, but differs from every head recorded earlier.

The audit has its own chain, with a link for each row in the order of ids, and the same rules.
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Final, LiteralString

import msgspec

from pixconnect.features.proof.rules import ChainedEntry, ChainHead
from pixconnect.features.proof.tables.look import read_finding
from pixconnect.kernel.rules.proof import Finding, Rule
from pixconnect.kernel.tables.lookup import ReadAll, ReadOne, Value
from pixconnect.platform.pool import Connection

_encode = msgspec.json.Encoder().encode
_REWRITTEN: Final = "history was rewritten with the rights of the tables' owner, or a part of the database was restored alone"
_COMPARE: Final = "compare with an earlier backup; `pixconnect verify entry ID --holder-id ID` shows the chained facts"

# After a change of one link the next one no longer follows, but later ones do: the finding names the origin.
UNBROKEN: Final = Rule(
    name="chain_has_no_break",
    says="each link of a holder's chain follows from the link before it",
    broken="""
        select holder_id, array['link ' || position] as ids, encode(sha256(head_before || added), 'hex') as expected,
            encode(head, 'hex') as found, chained_at as since
        from (
            select link.*, case
                    when position = 1 then sha256(convert_to('holder ' || holder_id, 'UTF8'))
                    else (
                        select head from entry_chain as earlier
                        where earlier.holder_id = link.holder_id and earlier.position = link.position - 1
                    )
                end as head_before,
                (
                    select string_agg(digest, ''::bytea order by place)
                    from unnest(digests) with ordinality as listed (digest, place)
                ) as added
            from {links} as link
        ) as following
        where head is distinct from sha256(head_before || added)
        order by holder_id, position
    """,
    meaning=_REWRITTEN + "; a link was changed, taken out, put in or moved, and the first one named is where it begins",
    todo=_COMPARE,
)
# A run's slices are by holder: a row moved to another holder is missing from the first and extra in the second.
AS_CHAINED: Final = Rule(
    name="entries_are_as_chained",
    says="each entry and its cause are unchanged since they were chained",
    broken="""
        with chained as materialized (
            select link.holder_id, link.position, chained_at, listed.* from {links} as link
            left join person_salt on person_salt.holder_id = link.holder_id and person_salt.position = link.position
                and person_salt.holder_id between $1 and $2
            cross join lateral unnest(entry_ids, digests, person_digests, salts)
                with ordinality as listed (entry_id, digest, person_digest, salt, place)
        )
        select chained.holder_id, array['entry ' || entry_id, 'link ' || position] as ids, encode(digest, 'hex') as expected,
            case
                when facts is null then 'no such entry'
                when digest = sha256(convert_to(facts, 'UTF8') || coalesce(person_digest, ''))
                    then 'somebody else, or no salt'
                else encode(sha256(convert_to(facts, 'UTF8') || coalesce(person_digest, '')), 'hex')
            end as found, chained_at as since
        from chained
        left join entry_facts on entry_facts.id = entry_id and entry_facts.holder_id = chained.holder_id
            and entry_facts.holder_id between $1 and $2
        where digest is distinct from sha256(convert_to(facts, 'UTF8') || coalesce(person_digest, ''))
            or person_digest is distinct from sha256(salt || convert_to(person, 'UTF8')) and not (
                -- Erased texts lost their salt, and the remaining texts have a digest of their own.
                salt is null and exists (
                    select from ledger_entry as entry
                    join erased_text as erased on erased.holder_id = entry.holder_id
                        and erased.kind = cause_kind::text and erased.id = cause_id
                    where entry.id = entry_id and entry.holder_id = chained.holder_id
                        and erased.person_digest = sha256(erased.salt || convert_to(person, 'UTF8'))
                )
            )
        order by holder_id, position, place
    """,
    meaning=_REWRITTEN + "; the first entry named is where it begins",
    todo=_COMPARE,
)
# Ids only rise: an entry older than the last chained one, and in no link, did not exist at its turn.
ALL_CHAINED: Final = Rule(
    name="entries_are_chained_once",
    says="each entry up to the last one that was chained is in its holder's chain once",
    broken="""
        select entry.holder_id, array['entry ' || entry.id] as ids, '1' as expected, count(entry_id)::text as found,
            created_at as since
        from ledger_entry as entry
        left join (
            select holder_id, unnest(entry_ids) as entry_id from entry_chain where holder_id between $1 and $2
        ) as chained on entry_id = entry.id and chained.holder_id = entry.holder_id
        where entry.holder_id between $1 and $2 and entry.id <= (select chained_id from entry_chain_state)
        group by entry.holder_id, entry.id, created_at
        having count(entry_id) <> 1
        order by entry.holder_id, entry.id
    """,
    is_of_whole_runs=True,
    meaning="an entry was put in by hand among older ones, or links were taken out, or put in twice",
    todo=_COMPARE,
)
# The last head of each holder at the time an entry was chained, in one digest. All entries are chained in the order of their
# ids, so these are the last links that begin up to that entry.
_ALL_UNTIL: Final[LiteralString] = """(
    select coalesce(
        sha256(string_agg(int8send(last.holder_id) || int8send(last.position) || last.head, '' order by last.holder_id)),
        sha256('')
    )
    from balance
    cross join lateral (
        select link.holder_id, link.position, link.head from entry_chain as link
        where link.holder_id = balance.holder_id and entry_ids[1] <= {entry_id}
        order by link.position desc limit 1
    ) as last
)"""
# One finding per holder, however many files have its heads: everything after the first differs too.
KEPT_HEADS: Final = Rule(
    name="heads_are_as_kept",
    says="each chain has the heads that were written down elsewhere",
    broken="""
        with compared as (
            select kept.*, encode(link.head, 'hex') as head_now,
                link.head is not distinct from decode(kept.head, 'hex') as is_same
            from jsonb_to_recordset($1::jsonb) as kept (holder_id bigint, position bigint, head text, chained_at timestamptz)
            left join entry_chain as link on link.holder_id = kept.holder_id and link.position = kept.position
            where kept.holder_id is not null
        ),
        compared_by_name as (
            select kept.*, encode(now.head, 'hex') as head_now,
                now.head is not distinct from decode(kept.head, 'hex') as is_same
            from jsonb_to_recordset($1::jsonb) as kept (chain text, position bigint, head text, chained_at timestamptz)
            cross join lateral (
                select case chain
                    when 'entries' then {all_until:kept.position}
                    else (select head from audit_chain as link where link.position = kept.position)
                end as head
            ) as now
            -- Heads written by earlier versions also name a chain `report`, which is gone.
            where chain in ('audit', 'entries')
        )
        (select distinct on (holder_id) holder_id, array['link ' || position] as ids, head as expected,
            coalesce(head_now, 'no such link') as found,
            (
                select max(chained_at) from compared as before
                where before.holder_id = compared.holder_id and before.position < compared.position and is_same
            ) as since
        from compared where not is_same order by holder_id, position)
        union all
        (select distinct on (chain) null, array[chain, case chain when 'entries' then 'entry ' else 'link ' end || position],
            head, coalesce(head_now, 'no such link'),
            (
                select max(chained_at) from compared_by_name as before
                where before.chain = compared_by_name.chain and before.position < compared_by_name.position and is_same
            )
        from compared_by_name where not is_same order by chain, position)
    """.replace("{all_until:kept.position}", _ALL_UNTIL.replace("{entry_id}", "kept.position")),
    of="heads",
    meaning="history was rewritten with its hashes, after the last head that is the same, or an older backup was restored",
    todo="if it was not restored: stop the service, keep the database as it is, and compare with an earlier backup",
)
# A row inserted here by hand could hide a change of chained facts; a restored text must no longer be kept.
ERASED: Final = Rule(
    name="erased_texts_are_gone",
    says="texts recorded as erased are gone, and were kept for the required time",
    broken="""
        select erased.holder_id, array[erased.kind || ' ' || erased.id] as ids, erased.part || ' is gone' as expected,
            case
                when coalesce(transfer.id, refund.id) is null then 'no such row'
                when erased_at < least_at then 'it was erased at ' || (erased_at at time zone 'UTC')
                else 'a text'
            end as found, erased_at as since
        from (select * from erased_text where holder_id between $1 and $2) as erased
        left join transfer on erased.kind = 'transfer' and transfer.id = erased.id and transfer.holder_id = erased.holder_id
        left join refund on erased.kind = 'refund' and refund.id = erased.id and refund.holder_id = erased.holder_id
        cross join lateral (
            select coalesce(transfer.settled_at, transfer.created_at, refund.settled_at, refund.created_at)
                + case part when 'all' then interval '1826 days' else interval '90 days' end as least_at
        ) as judged
        where coalesce(transfer.id, refund.id) is null or erased_at < least_at
            or transfer.payer_message is not null
            or part = 'all' and transfer.counterparty - '{account_type,branch,ispb}'::text[]
                <> '{"account_number": "0", "name": "-", "tax_id": "00000000000"}'
            or refund.description is not null
    """,
    is_of_whole_runs=True,
    meaning="a text was emptied early, or rewritten, with the rights of the tables' owner",
    todo=_COMPARE,
)
_of_audit: Final = partial(
    Rule,
    of="installation",
    todo="compare with an earlier backup, and ask the operators that the audit names: `pixconnect audit list`",
)
_AUDIT_REWRITTEN: Final = "operators' actions were rewritten with the rights of the tables' owner"

AUDIT_CHAIN: Final = (
    # A changed link breaks the next one too, but none after it.
    _of_audit(
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
        meaning=_AUDIT_REWRITTEN
        + "; a link was changed, taken out, put in or moved, and the first one named is where it begins",
    ),
    # Ids only rise: an older row without a link did not exist at its turn.
    _of_audit(
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
        meaning=_AUDIT_REWRITTEN
        + ", put a row in among older ones or taken a link out; the first one named is where it begins",
    ),
    # Without its row a chain stands still.
    _of_audit(
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
        meaning="the chain was stopped by hand: it no longer grows",
        todo="put the row back, with the last link's last id, into entry_chain_state or audit_chain_state; look with --whole",
    ),
)
CHAIN: Final = (UNBROKEN, AS_CHAINED, ALL_CHAINED, ERASED, KEPT_HEADS)

chain_entries: Final = Value[int, int, timedelta]("select chain_entries($1, $2) where refuse_old_session()")
"""Chain the oldest entries and return their number; 0 also while another process does it."""

# Read after the last chained one, so it costs as much as is pending: little, except after the upgrade that added the chain.
count_unchained: Final = Value[int]("""
    select count(*) from ledger_entry where id > coalesce((select chained_id from entry_chain_state), 0)
""")

# One index look-up per holder: reading all links would take as long as proving them.
list_heads: Final = ReadAll[ChainHead](
    ChainHead,
    """
    select balance.holder_id, position, encode(head, 'hex') as head, chained_at from balance
    cross join lateral (
        select position, head, chained_at from entry_chain where entry_chain.holder_id = balance.holder_id
        order by position desc limit 1
    ) as last
    order by balance.holder_id
""",
)

_LIST_NAMED: Final[LiteralString] = """
    (select 'audit' as chain, position, encode(head, 'hex') as head, chained_at from audit_chain order by position desc limit 1)
    union all
    select 'entries', chained_id, encode({all_until:chained_id}, 'hex'), clock_timestamp() from entry_chain_state
    where chained_id > 0
    order by chain
""".replace("{all_until:chained_id}", _ALL_UNTIL.replace("{entry_id}", "chained_id"))


async def list_named_heads(connection: Connection) -> list[ChainHead]:
    """The last head of the audit's chain, and that of all holders' chains together."""
    async with connection.transaction():
        await connection.execute("set local statement_timeout = 0")
        return [ChainHead(**row) for row in await connection.fetch(_LIST_NAMED)]


async def compare_heads(connection: Connection, kept: Sequence[ChainHead]) -> list[Finding]:
    """Return, for each holder and each chain of the installation, the first given head that it lacks."""
    rows = await connection.fetch(KEPT_HEADS.broken, _encode(kept).decode())
    return [read_finding(KEPT_HEADS.name, row) for row in rows]


# No index leads from an entry to its link: this reads one holder's links, for one inspection.
find_chained: Final = ReadOne[ChainedEntry, int, int](
    ChainedEntry,
    """
    select link.holder_id, $1::bigint as entry_id, facts, person, salts[place] as salt,
        link.person_digests[place] as person_digest, link.digests[place] as digest, erased.salt as erased_salt,
        erased.person_digest as erased_digest, erased.erased_at, link.position, place, link.digests,
        earlier.head as head_before, link.head, link.chained_at
    from (
        select *, array_position(entry_ids, $1::bigint) as place from entry_chain where holder_id = $2 and $1 = any(entry_ids)
        order by position limit 1
    ) as link
    left join person_salt on person_salt.holder_id = link.holder_id and person_salt.position = link.position
    left join entry_chain as earlier on earlier.holder_id = link.holder_id and earlier.position = link.position - 1
    left join entry_facts on entry_facts.id = $1 and entry_facts.holder_id = link.holder_id
    left join ledger_entry as entry on entry.id = $1 and entry.holder_id = link.holder_id
    left join erased_text as erased on erased.holder_id = entry.holder_id
        and erased.kind = cause_kind::text and erased.id = cause_id
""",
)
"""An entry in its chain; ``None`` if it is in none."""

chain_audit: Final = Value[int, int]("select chain_audit($1) where refuse_old_session()")
"""Chain rows, oldest first; return how many, 0 also while another session chains."""

count_unchained_audit: Final = Value[int]("""
    select count(*) from audit where id > coalesce((select chained_id from audit_chain_state), 0)
""")
