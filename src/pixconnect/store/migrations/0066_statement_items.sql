-- Lines of institutions' own statements, each once, what of ours each is, and how each day closes.

create table institution_file (
    institution_id smallint not null references institution_account on delete cascade,
    digest bytea not null check (length(digest) = 32),
    format text not null check (format in ('ofx', 'camt.053', 'efi')),
    bank text not null check (length(bank) <= 255),
    branch text not null check (length(branch) <= 255),
    number text not null check (length(number) between 1 and 255),
    first_on date not null check (isfinite(first_on)),
    last_on date not null check (isfinite(last_on) and last_on >= first_on),
    items_count integer not null check (items_count >= 0),
    recorded_at timestamptz not null check (isfinite(recorded_at)),
    primary key (institution_id, digest)
);
grant select, insert on institution_file to pixconnect_service;

create table institution_item (
    institution_id smallint not null references institution_account,
    item_id text collate "C" not null check (length(item_id) between 1 and 255),
    day date not null check (isfinite(day)),
    settled_at timestamptz check (isfinite(settled_at)),
    direction text not null check (direction in ('IN', 'OUT')),
    amount_cents bigint not null check (amount_cents between 1 and 999999999999),
    kind text not null check (kind in (
        'pix', 'refund', 'opening_balance', 'fee', 'wire', 'boleto', 'by_hand', 'reversal', 'judicial', 'other'
    )),
    end_to_end_id text collate "C" check (length(end_to_end_id) between 1 and 64),
    return_id text collate "C" check (length(return_id) between 1 and 64),
    txid text check (length(txid) <= 255),
    tax_id text check (length(tax_id) <= 255),
    counterparty text check (length(counterparty) <= 255),
    text text not null check (length(text) <= 255),
    source text not null check (source in ('ofx', 'camt.053', 'efi', 'api')),
    recorded_at timestamptz not null check (isfinite(recorded_at)),
    joined_kind text check (joined_kind in ('transfer', 'refund', 'movement')),
    joined_id text collate "C",
    joined_by text check (joined_by in ('name', 'instant', 'tax_id', 'counterparty', 'amount', 'alike', 'near')),
    is_reversal boolean not null default false,
    fee_of_kind text check (fee_of_kind in ('transfer', 'refund')),
    fee_of_id text collate "C",
    waits text check (waits in ('order_unknown', 'could_be_ours', 'not_yet_read', 'day_not_over', 'opening_day', 'before_opening')),
    others jsonb not null default '[]',
    primary key (institution_id, item_id),
    constraint joined_by_something check (
        (joined_kind is null) = (joined_id is null) and (joined_kind is null) = (joined_by is null)
    ),
    constraint what_is_joined_waits_for_nothing check (joined_kind is null or waits is null)
);
create index institution_item_day on institution_item (institution_id, day);
create index institution_item_alone on institution_item (institution_id, day) where joined_kind is null;
-- One line of ours is one item, and one more that reverses it.
create unique index institution_item_of on institution_item (joined_kind, joined_id, institution_id, is_reversal);
grant select, update (joined_kind, joined_id, joined_by, is_reversal, fee_of_kind, fee_of_id, waits, others)
    on institution_item to pixconnect_service;
grant insert on institution_item to pixconnect_service;

create trigger institution_item_is_never_deleted before delete or truncate on institution_item
    for each statement execute function refuse_change();

create function keep_joined() returns trigger language plpgsql as $$
begin
    raise exception 'item % is joined to % %, and stays so', old.item_id, old.joined_kind, old.joined_id
        using errcode = 'integrity_constraint_violation', constraint = 'an_item_stays_joined';
end $$;
create trigger keep_joined before update on institution_item for each row when (
    old.joined_kind is not null and (
        old.joined_kind, old.joined_id, old.is_reversal
    ) is distinct from (new.joined_kind, new.joined_id, new.is_reversal)
) execute function keep_joined();

create table institution_day (
    institution_id smallint not null references institution_account,
    day date not null check (isfinite(day)),
    opening_cents bigint,
    closing_cents bigint,
    read_at timestamptz check (isfinite(read_at)),
    source text not null check (source in ('ofx', 'camt.053', 'efi', 'api')),
    state text not null default 'open' check (state in ('open', 'provisional', 'closed', 'closed_with_cases')),
    closed_at timestamptz check (isfinite(closed_at)),
    reopened_at timestamptz check (isfinite(reopened_at)),
    primary key (institution_id, day)
);
grant select, insert, update (opening_cents, closing_cents, read_at, state, closed_at, reopened_at)
    on institution_day to pixconnect_service;

comment on table institution_file is 'Statement files of institutions that were read.';
comment on column institution_file.institution_id is 'The account.';
comment on column institution_file.digest is 'SHA-256 of the file: the same one again is nothing new.';
comment on column institution_file.format is 'Which reader read it.';
comment on column institution_file.bank is 'The bank, as the file names it; empty if it does not.';
comment on column institution_file.branch is 'The branch, as the file names it; empty if it does not.';
comment on column institution_file.number is 'The account, as the file names it: the next file must be of the same.';
comment on column institution_file.first_on is 'The first day that it speaks of, in Sao Paulo.';
comment on column institution_file.last_on is 'The last day that it speaks of.';
comment on column institution_file.items_count is 'How many lines of money it has.';
comment on column institution_file.recorded_at is 'When it was read, in service time.';
comment on table institution_item is 'Lines of institutions'' own statements, each once; what each says never changes.';
comment on column institution_item.institution_id is 'The account.';
comment on column institution_item.item_id is 'The institution''s name of the line, unique on the account.';
comment on column institution_item.day is 'Its day in Sao Paulo.';
comment on column institution_item.settled_at is 'Its instant by the institution''s clock, where it tells one.';
comment on column institution_item.direction is 'Whether money came in (IN) or went out (OUT).';
comment on column institution_item.amount_cents is 'How much, in cents.';
comment on column institution_item.kind is 'What the institution calls it.';
comment on column institution_item.end_to_end_id is 'The Pix that it is or is about, as the network calls it.';
comment on column institution_item.return_id is 'The return that it is, as the network calls it.';
comment on column institution_item.txid is 'The txid that the institution tells with it.';
comment on column institution_item.tax_id is 'The other side''s CPF or CNPJ, as far as it is told.';
comment on column institution_item.counterparty is 'The other side''s name, where it is told.';
comment on column institution_item.text is 'The institution''s text.';
comment on column institution_item.source is 'Where it was read: a file''s form, or the institution''s API.';
comment on column institution_item.recorded_at is 'When it was first read, in service time.';
comment on column institution_item.joined_kind is 'What of ours it is: a transfer, a refund, a movement; null while it is alone.';
comment on column institution_item.joined_id is 'The id of that; of a movement, its item id.';
comment on column institution_item.joined_by is 'What shows that the two are one.';
comment on column institution_item.is_reversal is 'It gives back what was debited for an order that failed.';
comment on column institution_item.fee_of_kind is 'What a fee was taken for: a transfer or a refund.';
comment on column institution_item.fee_of_id is 'The id of that.';
comment on column institution_item.waits is 'Why it is neither joined nor a movement.';
comment on column institution_item.others is 'Other contents that were told under the same id, for a person.';
comment on table institution_day is 'Days of accounts at institutions: their balances as told, and whether they are closed.';
comment on column institution_day.institution_id is 'The account.';
comment on column institution_day.day is 'The day in Sao Paulo.';
comment on column institution_day.opening_cents is 'What was on the account before it, as a statement told; null if none did.';
comment on column institution_day.closing_cents is 'What was on the account at its end, as a statement told; null if none did.';
comment on column institution_day.read_at is 'When a statement of all of it was last read, in service time.';
comment on column institution_day.source is 'Where its items come from: two sources give one line two names, so a day has one.';
comment on column institution_day.state is 'Open, provisional, closed, or closed with cases, as last judged.';
comment on column institution_day.closed_at is 'When it was last closed, in service time.';
comment on column institution_day.reopened_at is 'When it was last opened again, in service time.';
