-- When the certificates end by which accounts at institutions are reached, as whoever opened one last has read it.

create table institution_certificate (
    institution_id smallint not null references institution_account on delete cascade,
    part text collate "C" not null check (part in ('receiving', 'sending', 'authority')),
    ends_at timestamptz not null check (isfinite(ends_at)),
    primary key (institution_id, part)
);
grant select, insert, update, delete on institution_certificate to pixconnect_service;
comment on table institution_certificate is 'When the certificates of accounts at institutions end.';
comment on column institution_certificate.institution_id is 'The account.';
comment on column institution_certificate.part is
    'The client certificate of the receiving credential or of the sending one, or who signs the institution''s own.';
comment on column institution_certificate.ends_at is 'From when on it is not valid; of several in one file the first that ends.';
