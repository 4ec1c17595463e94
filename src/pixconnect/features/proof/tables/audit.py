"""Rules of operators' acts: the audit has each act, and the present state follows from it."""

from functools import partial
from typing import Final, LiteralString

from pixconnect.kernel.rules.proof import Rule
from pixconnect.kernel.tables.holder import HOLDER

_rule: Final = partial(Rule, of="installation")
_ASK: Final = (
    "ask the operator that the audit names, and compare with a backup; revoke the access of unknown "
    "operators: `pixconnect audit list`"
)

# The audit stores instants in the program's spelling, and the beginning of long texts.
_SAME: Final[LiteralString] = r"""
    case when {value} ~ '^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.0-9]*(Z|[+-]\d\d(:?\d\d)?)$' then {value}::timestamptz::text
        else {value} end
"""
_WAS: Final[LiteralString] = _SAME.replace("{value}", "was.value")
_IS: Final[LiteralString] = _SAME.replace("{value}", "is_now.value")

# Each audit row starts from the state in which the row before it ended, and the last one ends in the present state. So a
# removed, changed or inserted row disagrees with its neighbours. The state before the first row is unknown.
_AS_AUDITED: Final[LiteralString] = (
    """
    with said as (
        select id, at, subject, before, after from audit
        where (verb like '{kind} %' or verb = 'proposal confirm') and subject like '{kind} %' and {only}
    ),
    linked as (
        select subject, id, before, lag(after) over follows as told, lag(id) over follows as told_id,
            coalesce(at, lag(at) over follows) as at
        from (
            select subject, id, at, before, after from said
            union all
            select subject, null, null, state, null
            from (select distinct subject from said) as named full join ({present}) as present using (subject)
        ) as each
        window follows as (partition by subject order by id nulls last)
    )
    select {holder} as holder_id,
        array[subject, 'audit ' || coalesce(id, told_id)] as ids,
        coalesce(other.expected, told::text, 'a row of the audit') as expected,
        coalesce(other.found, before::text, 'nothing') as found, at as since
    from linked
    left join lateral (
        select string_agg(format('%s %s', key, was.value), ', ' order by key) as expected,
            string_agg(format('%s %s', key, is_now.value), ', ' order by key) as found
        from unnest({members}) as key
        cross join lateral (select told ->> key as value) as was
        cross join lateral (select before ->> key as value) as is_now
        -- What stands there in the same words is the same: reading instants is dear, and there is a row for each holder.
        where told ? key and before ? key and was.value is distinct from is_now.value and """
    + _WAS
    + " is distinct from "
    + _IS
    + """
            and {counts} and coalesce(was.value, '') not like '%... (cut, of % characters)%'
    ) as other on true
    where other.expected is not null or told is not null and before is null
        or told is null and before is not null and (told_id is not null or {is_new})
"""
)
# An account from before the audit has no row of its beginning.
_SINCE_AUDIT: Final[LiteralString] = """
    (before ->> 'created_at')::timestamptz >= (
        select min((after ->> 'created_at')::timestamptz) from said where said.before is null
    )
"""


def _as_audited(
    kind: LiteralString,
    present: LiteralString,
    members: LiteralString,
    *,
    only: LiteralString = "true",
    holder: LiteralString = "null::bigint",
    counts: LiteralString = "true",
    is_new: LiteralString = _SINCE_AUDIT,
) -> LiteralString:
    """Selects things of a kind whose state differs from the audit: ``present`` lists them, as ``subject`` and ``state``."""
    return (
        _AS_AUDITED.replace("{kind}", kind)
        .replace("{present}", present)
        .replace("{members}", f"'{{{members}}}'::text[]")
        .replace("{only}", only)
        .replace("{holder}", holder)
        .replace("{counts}", counts)
        .replace("{is_new}", is_new)
    )


AUDIT: Final = (
    _rule(
        name="holder_is_as_audited",
        says="a holder is what the audit says, and each row of the audit begins where the one before it has ended",
        broken=_as_audited(
            "holder",
            "select 'holder ' || id as subject, to_jsonb(holder) as state from holder",
            HOLDER.without("street, state, postal_code, family_id, successor_id").names,
            holder="substring(subject from '^holder ([0-9]{1,16})$')::bigint",
            # A holder is put on an account as that is added.
            counts="(key <> 'institution_id' or was.value is not null)",
        ),
        meaning="a limit, a flag or an owner was written by hand, or a row of the audit was",
        todo=_ASK,
    ),
    _rule(
        name="client_is_as_audited",
        says="a client is what the audit says, and each row of the audit begins where the one before it has ended",
        broken=_as_audited(
            "client",
            """
                select 'client ' || client_id as subject, to_jsonb(shown) as state from (
                    select client_id, holder_id, name, scopes, created_at, rotated_at, disabled_at, tokens_from, certificate,
                        certificate_expires_at
                    from client
                ) as shown
            """,
            "client_id,holder_id,name,scopes,created_at,rotated_at,disabled_at,tokens_from,certificate,certificate_expires_at",
            holder="(coalesce(told, before) ->> 'holder_id')::bigint",
        ),
        meaning="a client may act without permission, or for another holder; or a row of the audit was changed",
        todo="disable the client, and ask the operator that the audit names: `pixconnect client disable CLIENT_ID`",
    ),
    _rule(
        name="operator_is_as_audited",
        says="who may sign in to the console was added by an operator, in the role that they have",
        broken=_as_audited(
            "operator",
            "select 'operator ' || name as subject, jsonb_build_object('role', role) as state from console_operator",
            "role",
            only="verb in ('operator add', 'operator remove')",
            is_new="true",
        ),
        meaning="a person was given access, or more rights, by hand",
        todo="remove the operator at once, and look at what they did: `pixconnect operator remove NAME`",
    ),
    _rule(
        name="account_is_as_audited",
        says="an account at an institution is what the audit says, or paused",
        broken=_as_audited(
            "institution",
            """
                select 'institution ' || name as subject, to_jsonb(shown) as state from (
                    select id, name, kind, profile, environment, state, tax_id, base_url, token_url, authorities, account, keys,
                        poll_s, options, house_id, opened_at, opening_cents, created_at
                    from institution_account where removed_at is null
                ) as shown
            """,
            "id,name,kind,profile,environment,state,tax_id,base_url,token_url,authorities,account,keys,poll_s,options,"
            "house_id,opened_at,opening_cents,created_at",
            only="coalesce(after, before) ? 'profile'",
            # A loss of the database pauses every account, and so does the beginning of a closing.
            counts="not (key = 'state' and is_now.value = 'paused')",
            is_new="true",
        ),
        meaning="the service was pointed at another address or another account by hand",
        todo="pause the account, and compare it with its file: `pixconnect institution pause NAME`",
    ),
    _rule(
        name="house_lies_on_its_account",
        says="the house of an account at an institution lies on it",
        broken="""
            select house_id as holder_id, array['institution ' || account.name] as ids, account.id::text as expected,
                holder.institution_id::text as found, account.created_at as since
            from institution_account as account left join holder on holder.id = house_id
            where account.state <> 'closed' and removed_at is null and account.id is distinct from holder.institution_id
        """,
        meaning="the house or its holder's account was written by hand: money that no other holder owns goes to a stranger",
        todo="pause the account, and compare both with the audit: `pixconnect institution pause NAME`",
    ),
    _rule(
        name="key_is_as_audited",
        says="a Pix key belongs to the holder to which an operator last gave it",
        broken="""
            select coalesce(given.holder_id, pix_key.holder_id) as holder_id, array['key ' || key] as ids,
                given.holder_id::text as expected, pix_key.holder_id::text as found,
                coalesce(given.at, pix_key.created_at) as since
            from (
                select distinct on (key) key, at,
                    case verb when 'key add' then substring(subject from '^holder ([0-9]{1,16})$')::bigint end as holder_id
                from (
                    select coalesce(after, before) ->> 'key' as key, id, at, verb, subject from audit
                    where verb in ('key add', 'key remove') and subject like 'holder %'
                ) as said
                order by key, id desc
            ) as given
            full join pix_key using (key)
            where given.holder_id is distinct from pix_key.holder_id and (given.at is not null or pix_key.created_at >= (
                select min((after ->> 'created_at')::timestamptz) from audit where verb = 'holder create'
            ))
        """,
        meaning="payments to the key go to another holder than they should, or a row of the audit was changed",
        todo=_ASK,
    ),
    _rule(
        name="removed_key_is_as_audited",
        says="each removed Pix key is kept with the holder and the time of its removal by an operator",
        # Both are written in one transaction. They are paired from the last one, for the first may be from before the audit.
        broken="""
            select holder_id, array['removed key ' || key] as ids, said.at::text as expected, kept.removed_at::text as found,
                coalesce(said.at, kept.removed_at) as since
            from (
                select key, holder_id, at, row_number() over (partition by key, holder_id order by id desc) as number
                from (
                    select id, at, before ->> 'key' as key,
                        substring(subject from '^holder ([0-9]{1,16})$')::bigint as holder_id
                    from audit where verb = 'key remove' and subject like 'holder %'
                ) as removal
            ) as said
            full join (
                select key, holder_id, removed_at,
                    row_number() over (partition by key, holder_id order by removed_at desc) as number
                from removed_pix_key
            ) as kept using (key, holder_id, number)
            where (abs(extract(epoch from said.at - kept.removed_at)) < 300) is not true
                and (said.at is not null or kept.removed_at >= (select min(at) from audit))
        """,
        meaning="another holder can get the key while payments to the former one still come in, and receives them",
        todo=_ASK,
    ),
    _rule(
        name="session_was_begun",
        says="who is signed in to the console has signed in",
        broken="""
            select null::bigint as holder_id, array['session ' || console_session.id] as ids, signed_in.operator as expected,
                coalesce(operator_name, client_id, 'sandbox') as found, created_at as since
            from console_session
            left join audit as signed_in on verb = 'console sign-in' and subject = 'session ' || console_session.id
            where signed_in.operator is distinct from (
                case console_session.kind when 'holder' then 'client ' || client_id
                    else 'console ' || coalesce(operator_name, 'sandbox') end
            )
        """,
        meaning="a person was given access by hand, or entered another operator's session",
        todo="end the session in the console, and review the actions taken in it: `pixconnect audit list`",
    ),
    _rule(
        name="approval_is_audited",
        says="what two operators must agree to was proposed by one and confirmed by another, and what may leave is that",
        broken="""
            select holder_id, array[subject, 'proposal ' || act] as ids,
                case when is_proposed then 'confirmed by ' || confirmed_by else 'proposed by ' || proposed_by end
                    as expected,
                null as found, proposed_at as since
            from (
                select subject, proposal.*, exists (
                    select from audit
                    where operator = proposed_by and after ->> 'act' = act
                        and (after ->> 'proposed_at')::timestamptz = proposed_at
                        and not exists (
                            select from jsonb_each_text(contents) as one
                            full join jsonb_each_text(after -> 'contents') as told using (key)
                            where told.value is distinct from one.value and told.value is distinct from
                                left(one.value, 200) || format('... (cut, of %s characters)', length(one.value))
                        )
                        and (after ->> 'acts_at')::timestamptz is not distinct from acts_at
                        and (after ->> 'holder_id')::bigint is not distinct from proposal.holder_id
                        and (after ->> 'institution_id')::bigint is not distinct from proposal.institution_id
                ) as is_proposed, exists (
                    select from audit
                    where verb = 'proposal confirm' and audit.subject = named.subject and operator = confirmed_by
                ) as is_confirmed
                from proposal
                left join institution_account as account on account.id = proposal.institution_id
                cross join lateral (
                    select coalesce('institution ' || account.name, 'holder ' || proposal.holder_id) as subject
                ) as named
            ) as proposal
            where not is_proposed or confirmed_by is not null and not is_confirmed
            union all
            select null, array['institution ' || name, 'allowance'], coalesce(allowed.said, '0 0 0 own by nobody'),
                standing.said, allowed.at
            from institution_account left join institution_allowance on institution_account.id = institution_id
            left join lateral (
                select concat_ws(' ', refunds_day_cents, transfer_cents, transfers_day_cents, payees, 'by',
                    coalesce(allowed_by, 'nobody')) as said
                where institution_id is not null
            ) as standing on true
            left join lateral (
                -- Rows older than outgoing transfers contain nothing about them.
                select concat_ws(' ', after ->> 'refunds_day_cents', coalesce(after ->> 'transfer_cents', '0'),
                    coalesce(after ->> 'transfers_day_cents', '0'), coalesce(after ->> 'payees', 'own'), 'by',
                    coalesce(after ->> 'allowed_by', 'nobody')) as said, at from audit
                where subject = 'institution ' || name and verb in ('institution allow', 'proposal confirm')
                    and after ? 'allowed_by' and (after ->> 'institution_id')::int = institution_account.id
                order by audit.id desc limit 1
            ) as allowed on true
            where standing.said is distinct from coalesce(allowed.said, '0 0 0 own by nobody')
        """,
        meaning="one person has let more leave an account or a holder, or has closed an account",
        todo="pause the account or set the holder's limits again, and ask both: `pixconnect institution pause NAME`",
    ),
    _rule(
        name="what_was_decided_is_audited",
        says="each permanent decision of an operator has its row in the audit, in that operator's name",
        broken="""
            select null::bigint as holder_id, array[coalesce(decided.made, decided.subject)] as ids,
                decided.verb as expected, decided.operator as found, decided.at as since
            from (
                select 'report close' as verb, 'report ' || kept_report.id as subject, closed_by as operator, closed_at as at,
                    kept_case.id as case_id, null as made
                from kept_report left join kept_case on kept_case.kind = 'report' and kept_case.name = kept_report.id::text
                where closed_at is not null
                union all
                select 'database recovered', 'database', recovered_by, recovered_at, null, null
                from database_loss where recovered_at is not null
                union all
                select 'signing-key revoke', 'signing-key ' || kid, null, revoked_at, null, null
                from signing_key where revoked_at is not null
                union all
                select 'operator endpoint allow', 'host ' || host, null, allowed_at, null, null from allowed_webhook_host
                {parts}
            ) as decided
            where not exists (
                select from audit where audit.verb = decided.verb and audit.subject = decided.subject
                    and (decided.operator is null or audit.operator = decided.operator)
            )
            -- One decision may have ended several cases, and a kept report ends with its case, by either verb.
            and not exists (
                select from audit
                where audit.verb = 'case close' and audit.after -> 'ids' @> to_jsonb(decided.case_id)
                    and audit.operator = decided.operator
            )
            and not exists (
                select from kept_case join audit on audit.verb = 'report close' and audit.subject = 'report ' || name
                where kept_case.id = decided.case_id and kind = 'report' and audit.operator = decided.operator
            )
        """,
        meaning="it was decided by hand, or the audit has lost a row",
        todo=_ASK,
    ),
    _rule(
        name="endpoint_is_as_audited",
        says="a webhook endpoint is as its owner's client has set it last",
        broken="""
            select webhook_endpoint.holder_id, array['endpoint ' || webhook_endpoint.id] as ids, said.after::text as expected,
                format('%s %s %s', webhook_endpoint.holder_id, left(url, 100), event_types) as found, said.at as since
            from webhook_endpoint
            join (
                select distinct on (subject) subject, at, after from audit
                where subject like 'endpoint %' and verb in ('endpoint add', 'endpoint set', 'endpoint rotate')
                order by subject, id desc
            ) as said on said.subject = 'endpoint ' || webhook_endpoint.id
            -- What the console sets is kept there in other words.
            where said.after ? 'event_types' and (
                (said.after ->> 'holder_id')::bigint <> holder_id or to_jsonb(event_types) <> said.after -> 'event_types'
                or left(url, 500) is distinct from said.after ->> 'url'
            )
        """,
        meaning="another receiver gets the holder's events",
        todo="set the endpoint inactive, and ask its owner: `pixconnect endpoint show ID`",
    ),
)
