-- The audit and the kept reports are chained by hash as each holder's entries are: one chain for each of the two, of the whole
-- installation, and a link for each of their rows, of which there are few.

-- What of a row is chained, in the one form in which it is hashed: what never changes, and apart from it what may be about a
-- person. A later form needs a view of its own, and a column of the chain that says which: what was chained stays as it is.
create view record_facts as
    select 'audit'::text as kind, id,
        json_build_array('audit', id, at at time zone 'UTC', verb, request_id)::text as facts,
        json_build_array(operator, subject, before, after)::text as person
    from audit
    union all
    select 'report', id,
        json_build_array('report', id, kind, reason, name, report_id, refusal_code, first_seen_at at time zone 'UTC')::text,
        json_build_array(explanation, report)::text
    from kept_report;

create table record_chain (
    kind text collate "C" not null check (kind in ('audit', 'report')),
    position bigint not null check (position >= 1),
    record_id bigint not null,
    digest bytea not null check (octet_length(digest) = 32),
    person_digest bytea not null check (octet_length(person_digest) = 32),
    head bytea not null check (octet_length(head) = 32),
    chained_at timestamptz not null,
    primary key (kind, position),
    constraint each_record_is_chained_once unique (kind, record_id)
);
create trigger record_chain_is_append_only before delete or update or truncate on record_chain
    for each statement execute function refuse_change();
grant select on record_chain to pixconnect_service;

-- Apart from the chain, as those of entries are.
create table record_salt (
    kind text collate "C" not null check (kind in ('audit', 'report')),
    position bigint not null check (position >= 1),
    salt bytea not null check (octet_length(salt) = 16),
    primary key (kind, position)
);
create trigger record_salt_is_append_only before delete or update or truncate on record_salt
    for each statement execute function refuse_change();
grant select on record_salt to pixconnect_service;

create table record_chain_state (
    kind text collate "C" primary key check (kind in ('audit', 'report')),
    chained_id bigint not null default 0,
    bound_id bigint not null default 0 check (bound_id >= chained_id),
    bound_writers text[] not null
) with (fillfactor = 50);
insert into record_chain_state (kind, bound_writers) values ('audit', '{}'), ('report', '{}');
grant select on record_chain_state to pixconnect_service;

-- Chains rows that will have no other before them any more; of each kind at most so many, the oldest first. Answers how many.
--
-- A row takes its id before it is committed, so it may be seen after others with higher ids. Whoever writes one holds the
-- table's lock for writers from before that until after it can be seen. So once all who held it when the bound was noted have
-- ended, no row comes up to the bound any more. Nobody waits for this, and nothing that is done to other tables delays it.
create function chain_records(count_max integer) returns bigint
language plpgsql security definer set search_path = {schema}, pg_temp set plan_cache_mode = force_custom_plan as $$
declare
    state record_chain_state;
    newest bigint;
    writers text[];
    each record;
    link record_chain;
    of_kind_count bigint;
    chained_count bigint := 0;
begin
    -- What is skipped somebody else chains.
    for state in select * from record_chain_state order by kind for update skip locked loop
        newest := null;
        if state.chained_id = state.bound_id then
            newest := case state.kind when 'audit' then (select max(id) from audit) else (select max(id) from kept_report) end;
            -- Where nothing happens, nothing is written.
            continue when newest is null or newest <= state.bound_id;
        end if;
        -- After the newest row was read, and not before.
        writers := array(
            select virtualtransaction from pg_locks
            where relation = to_regclass(case state.kind when 'audit' then 'audit' else 'kept_report' end)
                and database = (select oid from pg_database where datname = current_database())
                and mode = 'RowExclusiveLock' and granted
        );
        if newest is not null then
            state.bound_id := newest;
            state.bound_writers := writers;
            update record_chain_state set bound_id = newest, bound_writers = writers where kind = state.kind;
        end if;
        continue when state.bound_writers && writers;

        select * into link from record_chain where kind = state.kind order by position desc limit 1;
        if not found then
            link.position := 0;
            link.head := sha256(convert_to(state.kind, 'UTF8'));
        end if;
        of_kind_count := 0;
        for each in
            select id, facts, person, uuid_send(gen_random_uuid()) as salt from record_facts
            where kind = state.kind and id > state.chained_id and id <= state.bound_id
            order by id limit count_max
        loop
            link.position := link.position + 1;
            link.record_id := each.id;
            link.person_digest := sha256(each.salt || convert_to(each.person, 'UTF8'));
            link.digest := sha256(convert_to(each.facts, 'UTF8') || link.person_digest);
            link.head := sha256(link.head || link.digest);
            insert into record_chain (kind, position, record_id, digest, person_digest, head, chained_at)
            values (
                state.kind, link.position, link.record_id, link.digest, link.person_digest, link.head, clock_timestamp()
            );
            insert into record_salt (kind, position, salt) values (state.kind, link.position, each.salt);
            of_kind_count := of_kind_count + 1;
        end loop;
        -- Behind the last row ids up to the bound are of rows that were taken back.
        update record_chain_state set chained_id = case when of_kind_count < count_max then bound_id else link.record_id end
        where kind = state.kind;
        chained_count := chained_count + of_kind_count;
    end loop;
    return chained_count;
end $$;
grant execute on function chain_records(integer) to pixconnect_service;

comment on view record_facts is 'What of the audit and of kept reports is chained by hash, as the text that is hashed.';
comment on column record_facts.kind is 'Which of the two it is: audit, or report.';
comment on column record_facts.id is 'Its id there.';
comment on column record_facts.facts is 'What it is, as a JSON array of what never changes.';
comment on column record_facts.person is 'What of it may be about a person, as a JSON array.';
comment on table record_chain is 'The audit and the kept reports, each chained by hash; rows are never changed or deleted.';
comment on column record_chain.kind is 'Which chain it is of: audit, or report.';
comment on column record_chain.position is 'Counts the links of a chain up from 1.';
comment on column record_chain.record_id is 'The row of the audit, or the kept report.';
comment on column record_chain.digest is 'The SHA-256 of its facts, and behind them of the person_digest.';
comment on column record_chain.person_digest is 'The SHA-256 of the salt and of what may be about a person.';
comment on column record_chain.head is 'The SHA-256 of the head before it and of this digest.';
comment on column record_chain.chained_at is 'When it was chained, in real time.';
comment on table record_salt is 'What was hashed with each text that may be about a person; rows are never changed or deleted.';
comment on column record_salt.kind is 'Which chain the link is of.';
comment on column record_salt.position is 'The link.';
comment on column record_salt.salt is 'Sixteen octets of chance.';
comment on table record_chain_state is 'How far the audit and the kept reports are chained.';
comment on column record_chain_state.kind is 'Which chain it is of: audit, or report.';
comment on column record_chain_state.chained_id is 'Each row up to this id is chained.';
comment on column record_chain_state.bound_id is 'Up to this id rows are chained next.';
comment on column record_chain_state.bound_writers is 'Transactions that wrote when the bound was noted, and end before it is chained.';
