-- A Pix between two cells of one installation leaves one and arrives in the other over this network. Its order is taken together with
-- the credit or return that comes of it, and ends as that does: until then nobody knows when, so it is due at infinity.
alter table settlement add column crosses boolean not null default false;

comment on column settlement.crosses is
    'Whether it goes to a holder of the same installation, in another of its databases: it ends with the arrival of the same id.';
