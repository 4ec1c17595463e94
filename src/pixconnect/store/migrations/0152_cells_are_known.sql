-- The home cell knows all others: their numbers, where they are, and how far `pixconnect cell add` has come with each.

create table cell (
    number smallint primary key constraint home_is_no_row check (number between 1 and 255),
    name text not null unique constraint cell_name_is_a_word check (name ~ '^[a-z][a-z0-9-]{0,31}$' and name <> 'home'),
    -- Whoever may read this table is given no login by it.
    address text not null unique constraint address_has_no_login check (
        length(address) <= 1000 and address ~ '^postgresql://[^@?#]*/[^@/?#]+([?][^@#]*)?$'
        and address !~* '[?&](user|password|passfile|service|sslcert|sslkey|sslpassword)='
    ),
    identity uuid not null unique default gen_random_uuid(),
    state text not null default 'OPENING' check (state in ('OPENING', 'OPEN')),
    added_at timestamptz not null default clock_timestamp()
);
grant select on cell to pixconnect_service;
grant insert (number, name, address), update (address, identity, state) on cell to pixconnect_operator;

alter table installation
    add column cell_identity uuid,
    add constraint home_has_no_identity check (cell_identity is null or cell <> 0);

create function refuse_cell_elsewhere() returns trigger language plpgsql as $$
begin
    if exists (select from installation where cell <> 0) then
        raise exception 'these tables are a cell: only the home cell knows the others'
            using errcode = 'integrity_constraint_violation', constraint = 'cells_are_known_at_home';
    end if;
    return null;
end $$;
create trigger cells_are_known_at_home after insert on cell for each statement execute function refuse_cell_elsewhere();

create function refuse_other_number() returns trigger language plpgsql as $$
begin
    raise exception 'a cell keeps its number, its name and, once it is open, its identity: ids and names lead there'
        using errcode = 'integrity_constraint_violation', constraint = tg_name;
end $$;
create trigger known_cell_is_kept before update on cell for each row
    when (old.number <> new.number or old.name <> new.name or old.state = 'OPEN' and old.identity <> new.identity)
    execute function refuse_other_number();
create trigger known_cell_stays before delete or truncate on cell for each statement execute function refuse_other_number();
create trigger cell_identity_is_kept before update of cell_identity on installation for each row
    when (old.cell_identity is not null and old.cell_identity is distinct from new.cell_identity)
    execute function refuse_other_number();

create or replace function refuse_other_cell() returns trigger language plpgsql as $$
begin
    if old.cell <> 0 or exists (select from holder) or exists (select from cell) then
        raise exception 'a cell keeps its number: its ids and names are in the hands of others'
            using errcode = 'integrity_constraint_violation', constraint = 'cell_is_kept';
    end if;
    return new;
end $$;

comment on table cell is 'The cells beside the home cell, in which alone this table has rows.';
comment on column cell.number is 'What its ids have above their lowest 45 bits; it never changes.';
comment on column cell.name is 'What operators call it; it never changes.';
comment on column cell.address is 'Where its database is, without a login: each process logs in as it does to the home cell.';
comment on column cell.identity is
    'What the cell''s own tables say too, so that no other database with the same number passes for it.';
comment on column cell.state is 'OPENING until its tables are made and say its number; then OPEN.';
comment on column cell.added_at is 'When it was first named here, in real time.';
comment on column installation.cell_identity is 'What the home cell calls this database, if it is a cell; null in the home cell.';
