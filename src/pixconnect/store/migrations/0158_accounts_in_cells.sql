-- The home cell knows which accounts at institutions are another cell's, as it knows keys and account numbers; and whoever moves a cell
-- keeps money from leaving its accounts for a moment.

create table institution_cell (
    name text collate "C" primary key constraint name_of_an_account check (name ~ '^[a-z][a-z0-9-]{0,39}$'),
    cell smallint not null constraint institution_of_a_known_cell references cell,
    claimed_at timestamptz not null default clock_timestamp()
);
create index institution_of_cell on institution_cell (cell, name);
grant select, delete on institution_cell to pixconnect_service;
grant insert (name, cell), update (claimed_at) on institution_cell to pixconnect_service, pixconnect_operator;

create function refuse_institution_of_another_cell() returns trigger language plpgsql as $$
declare
    is_taken boolean;
begin
    perform hold_name('institution', new.name);
    is_taken := case tg_table_name when 'institution_account' then exists (select from institution_cell where name = new.name)
        else exists (select from institution_account where name = new.name and removed_at is null) end;
    if is_taken then
        raise exception 'this account is of another cell'
            using errcode = 'unique_violation', constraint = 'a_name_is_of_one_cell';
    end if;
    return new;
end $$;
create trigger institution_is_of_one_cell before insert on institution_account for each row
    execute function refuse_institution_of_another_cell();
create trigger institution_is_of_one_cell before insert on institution_cell for each row
    execute function refuse_institution_of_another_cell();

alter table institution_account add column held_at timestamptz constraint held_at_is_finite check (isfinite(held_at));
comment on column institution_account.held_at is
    'Since when whoever moves the cell keeps money from leaving it, in real time; null while nobody does.';

comment on table institution_cell is
    'The accounts at institutions in other cells than the home cell, in which alone this table has rows.';
comment on column institution_cell.name is 'The name, which one account of all cells has.';
comment on column institution_cell.cell is 'The cell that was to have it; whether it has it, its own tables say.';
comment on column institution_cell.claimed_at is
    'When it was last claimed for that cell, in real time: soon after that, the cell may not have it yet.';
