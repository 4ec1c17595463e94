-- Which cell these tables are (domain/frame/cell.py), so that ids and names say from now on where their rows are.

alter table installation
    add column cell smallint not null default 0,
    add column tagged_since timestamptz not null default '-infinity',
    add constraint there_are_256_cells check (cell between 0 and 255);

-- Names of before end with any characters. Service time, because names say it.
update installation set tagged_since = clock_timestamp() + offset_us * interval '1 microsecond' from clock;

-- The cell is in each of these ids above its lowest 45 bits: the home cell's were always below, and stay there.
alter sequence holder_id maxvalue 35184372088831;
alter sequence charge_id maxvalue 35184372088831;
alter sequence transfer_id maxvalue 35184372088831;
alter sequence refund_id maxvalue 35184372088831;
alter sequence location_id maxvalue 35184372088831;

create function refuse_other_cell() returns trigger language plpgsql as $$
begin
    if old.cell <> 0 or exists (select from holder) then
        raise exception 'a cell keeps its number: its ids and names are in the hands of others'
            using errcode = 'integrity_constraint_violation', constraint = 'cell_is_kept';
    end if;
    return new;
end $$;
create trigger cell_is_kept before update of cell on installation for each row
    when (old.cell is distinct from new.cell) execute function refuse_other_cell();

-- For the owner, in a database in which nothing has happened yet.
create function become_cell(wanted integer) returns void language plpgsql as $$
declare
    first_id bigint := wanted::bigint << 45;
    ids text;
begin
    -- Nobody opens a holder meanwhile, whose id would be of the home cell.
    lock table holder in share row exclusive mode;
    update installation set cell = wanted;
    if not found then
        raise exception 'no program has said the mode of these tables yet';
    end if;
    foreach ids in array array['holder_id', 'charge_id', 'transfer_id', 'refund_id', 'location_id'] loop
        execute format(
            'alter sequence %I minvalue %s maxvalue %s start with %s restart', ids, first_id + 1, first_id + (1::bigint << 45) - 1,
            first_id + 1
        );
    end loop;
end $$;
revoke execute on function become_cell(integer) from public;

-- A copy by logical replication finds a row that is deleted by all its columns, where it has no key. It costs a server nothing that
-- keeps no logical log.
alter table tally_change replica identity full;
alter table webhook_tally_change replica identity full;

comment on column installation.cell is 'The number of the cell that these tables are; 0 is the home cell.';
comment on column installation.tagged_since is
    'Service time since when names that are made here end with the tag of the cell; those of before are the home cell''s.';
