-- A payment may be told again long after it was credited, when its key is a holder's of another cell already. So the home cell remembers
-- for a time which cells a key has led to: those are asked for the payment by its name, before whoever has the key now is credited.
create table former_key_cell (
    key text not null constraint former_key_is_bounded check (length(key) between 1 and 255),
    cell smallint not null constraint former_cell_is_known references cell,
    left_at timestamptz not null default clock_timestamp(),
    primary key (key, cell)
);
create index former_key_cell_by_age on former_key_cell (left_at);
grant select, insert (key, cell), update (left_at), delete on former_key_cell to pixconnect_service;

create function keep_former_cell() returns trigger language plpgsql as $$
begin
    insert into former_key_cell (key, cell) values (old.key, old.cell)
    on conflict (key, cell) do update set left_at = clock_timestamp();
    return null;
end $$;
create trigger keep_former_cell after delete on key_cell for each row execute function keep_former_cell();

comment on table former_key_cell is
    'The cells that a key of another cell than the home cell has led to and leads to no more, in the home cell alone.';
comment on column former_key_cell.key is 'The key as the network writes it.';
comment on column former_key_cell.cell is 'The cell that had it.';
comment on column former_key_cell.left_at is 'When the home cell found that the cell has it no more, in real time.';
