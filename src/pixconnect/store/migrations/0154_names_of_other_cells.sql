-- The home cell knows which keys and accounts are another cell's, so that no name leads to holders of two cells. What has no row here
-- is its own or nobody's: where there is one cell, these tables are empty. A row may be there before the cell has the name, and after.

create table key_cell (
    key text primary key constraint key_is_bounded check (length(key) between 1 and 255),
    cell smallint not null constraint key_of_a_known_cell references cell,
    claimed_at timestamptz not null default clock_timestamp()
);
create table account_cell (
    account_number text primary key constraint account_number_is_one check (account_number ~ '^[0-9A-Z]{1,20}$'),
    cell smallint not null constraint account_of_a_known_cell references cell,
    claimed_at timestamptz not null default clock_timestamp()
);
create index key_of_cell on key_cell (cell, key);
create index account_of_cell on account_cell (cell, account_number);
grant select, delete on key_cell, account_cell to pixconnect_service;
grant insert (key, cell), update (claimed_at) on key_cell to pixconnect_service, pixconnect_operator;
grant insert (account_number, cell), update (claimed_at) on account_cell to pixconnect_service, pixconnect_operator;

-- Of two who give the same name at the same time, one waits for the other here, and then sees what that has done.
create function hold_name(kind text, name text) returns void language sql as $$
    select pg_advisory_xact_lock(hashtextextended(kind || ' ' || name, 7811889))
$$;
grant execute on function hold_name(text, text) to pixconnect_service, pixconnect_operator;

create function refuse_name_of_another_cell() returns trigger language plpgsql as $$
declare
    is_taken boolean;
begin
    if tg_argv[0] = 'key' then
        perform hold_name('key', new.key);
        is_taken := case tg_table_name when 'pix_key' then exists (select from key_cell where key = new.key)
            else exists (select from pix_key where key = new.key) end;
    else
        perform hold_name('account', new.account_number);
        is_taken := case tg_table_name when 'holder'
            then exists (select from account_cell where account_number = new.account_number)
            else exists (select from holder where account_number = new.account_number) end;
    end if;
    if is_taken then
        raise exception 'this % is of another cell', tg_argv[0]
            using errcode = 'unique_violation', constraint = 'a_name_is_of_one_cell';
    end if;
    return new;
end $$;
create trigger key_is_of_one_cell before insert on pix_key for each row execute function refuse_name_of_another_cell('key');
create trigger key_is_of_one_cell before insert on key_cell for each row execute function refuse_name_of_another_cell('key');
create trigger account_is_of_one_cell before insert on holder for each row
    execute function refuse_name_of_another_cell('account');
create trigger account_is_of_one_cell before insert on account_cell for each row
    execute function refuse_name_of_another_cell('account');

comment on table key_cell is 'The Pix keys of holders in other cells than the home cell, in which alone this table has rows.';
comment on column key_cell.key is 'The key as the network writes it.';
comment on column key_cell.cell is 'The cell that was to have it; whether it has it, its own tables say.';
comment on column key_cell.claimed_at is 'When it was last claimed for that cell, in real time: soon after that, the cell may not have it yet.';
comment on table account_cell is
    'The account numbers of holders in other cells than the home cell, in which alone this table has rows.';
comment on column account_cell.account_number is 'The number, which one holder of all cells has.';
comment on column account_cell.cell is 'The cell that was to have it; whether it has it, its own tables say.';
comment on column account_cell.claimed_at is
    'When it was last claimed for that cell, in real time: soon after that, the cell may not have it yet.';
