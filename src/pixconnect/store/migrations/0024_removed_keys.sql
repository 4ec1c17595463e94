-- An operator may remove a Pix key. Processes remember whose keys are for a second; a removal moves the revision that they look at.
--
-- Whose a key was is remembered: a payment to it that is still reported is refused on the account that it would have reached, under
-- that account's lock; and the key is given to another holder only when nobody can believe any more that it is the former's.

create table removed_pix_key (
    key text collate "C" primary key check (length(key) between 1 and 77),
    holder_id bigint not null references holder,
    removed_at timestamptz not null default clock_timestamp()
);
grant select on removed_pix_key to pixconnect_service;
grant insert (key, holder_id), update (holder_id, removed_at), delete on removed_pix_key to pixconnect_operator;
grant delete on pix_key to pixconnect_operator;
create trigger key_removal_moves_access_revision after delete on pix_key
    for each row execute function move_access_revision();
