-- Which endpoints a holder had, so that a line of time finds what was sent to them: deliveries are found by their endpoint alone.
-- The newest twenty of each holder are kept. Those that were removed before this table was there are not in it.

create table removed_endpoint (
    id bigint primary key,
    holder_id bigint not null,
    removed_at timestamptz not null default clock_timestamp()
);
create index removed_endpoint_list on removed_endpoint (holder_id, removed_at);
grant select, insert, delete on removed_endpoint to pixconnect_service;

create function keep_removed_endpoint() returns trigger language plpgsql as $$
begin
    insert into removed_endpoint (id, holder_id) values (old.id, old.holder_id);
    delete from removed_endpoint where id in (
        select id from removed_endpoint where holder_id = old.holder_id order by removed_at desc, id desc offset 20
    );
    return null;
end $$;
create trigger keep_removed_endpoint after delete on webhook_endpoint
    for each row execute function keep_removed_endpoint();
