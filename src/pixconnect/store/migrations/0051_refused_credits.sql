-- A payment that is refused stays refused, also where nobody here had the account and so no transfer could be recorded: whoever gets
-- the key or the account later is not credited when it is reported again, for the payer has the money back.
--
-- Anybody may pay to keys that lead nowhere, so a row is short, written in batches, and forgotten after a time.

create table refused_credit (
    name text collate "C" primary key check (length(name) = 32 and name like 'E%'),
    kind text not null check (kind in ('credit', 'credit_accepted', 'credit_cancelled')),
    refusal_code text not null,
    refused_at timestamptz not null default clock_timestamp()
);
create index refused_credit_by_age on refused_credit (refused_at);
grant select, insert, delete on refused_credit to pixconnect_service;

-- Refusals hold what they found to be nobody's, shared, until they are committed. So whoever gives it to somebody waits for them,
-- and a report that finds it given finds them too.
create function hold_account(account text) returns void language sql as $$
    select pg_advisory_xact_lock_shared(hashtextextended(account, 7811886))
$$;
grant execute on function hold_account(text) to pixconnect_service;
create function await_refusals() returns trigger language plpgsql as $$
begin
    perform pg_advisory_xact_lock(hashtextextended(
        case tg_table_name when 'pix_key' then to_jsonb(new) ->> 'key'
            else (to_jsonb(new) ->> 'branch') || ' ' || (to_jsonb(new) ->> 'account_number') end,
        7811886
    ));
    return new;
end $$;
create trigger await_refusals before insert on pix_key for each row execute function await_refusals();
create trigger await_refusals before insert on holder for each row execute function await_refusals();

-- What settles after we refused to accept it cannot be refused any more: then a person has to see it.
alter table transfer add column acceptance_refused boolean;
