-- Tables of features that functions, statements and proof rules of the kernel read; the features have their triggers.

create table institution_sweep (
    institution_id smallint not null,
    pace text not null,
    began_at timestamp with time zone not null,
    ended_at timestamp with time zone not null,
    items_count bigint not null,
    failed_at timestamp with time zone,
    failure text,
    constraint institution_sweep_pkey primary key (institution_id, pace),
    constraint institution_sweep_began_at_check check (isfinite(began_at)),
    constraint institution_sweep_ended_at_check check (isfinite(ended_at)),
    constraint institution_sweep_failed_at_check check (isfinite(failed_at)),
    constraint institution_sweep_failure_check check (length(failure) <= 300),
    constraint institution_sweep_pace_check check (pace in ('near', 'wide', 'deep', 'statement', 'contests', 'sent')),
    constraint institution_sweep_institution_id_fkey foreign key (institution_id) references institution_account(id) on delete
        cascade
);
comment on table institution_sweep is 'How far the lists of an account were read, by each pace.';
comment on column institution_sweep.institution_id is 'The account.';
comment on column institution_sweep.pace is
    'Near: since a moment ago; wide: three days; deep: a hundred days, for returns; statement: its own; contests: those of payers; sent: returns of sent Pix.';
comment on column institution_sweep.began_at is
    'When the last whole sweep began, in real time: earlier facts are recorded, within the institution''s lag.';
comment on column institution_sweep.ended_at is 'When it ended, all its items recorded or kept.';
comment on column institution_sweep.items_count is 'How many it found.';
comment on column institution_sweep.failed_at is 'When a sweep failed last, in real time; null once one has succeeded since.';
comment on column institution_sweep.failure is 'Why.';
grant insert, select, update on table institution_sweep to pixconnect_service;

create table institution_item (
    institution_id smallint not null,
    item_id text collate "C" not null,
    day date not null,
    settled_at timestamp with time zone,
    direction text not null,
    amount_cents bigint not null,
    kind text not null,
    end_to_end_id text collate "C",
    return_id text collate "C",
    txid text,
    tax_id text,
    counterparty text,
    text text not null,
    source text not null,
    parts jsonb,
    recorded_at timestamp with time zone not null,
    joined_kind text,
    joined_id text collate "C",
    joined_by text,
    is_reversal boolean default false not null,
    fee_of_kind text,
    fee_of_id text collate "C",
    waits text,
    constraint institution_item_pkey primary key (institution_id, item_id),
    constraint institution_item_amount_cents_check check (amount_cents >= 1 and amount_cents <= 999999999999),
    constraint institution_item_counterparty_check check (length(counterparty) <= 255),
    constraint institution_item_day_check check (isfinite(day)),
    constraint institution_item_direction_check check (direction in ('IN', 'OUT')),
    constraint institution_item_end_to_end_id_check check (length(end_to_end_id) >= 1 and length(end_to_end_id) <= 64),
    constraint institution_item_fee_of_kind_check check (fee_of_kind in ('transfer', 'refund')),
    constraint institution_item_item_id_check check (length(item_id) >= 1 and length(item_id) <= 255),
    constraint institution_item_joined_by_check check (joined_by in ('name', 'instant', 'tax_id', 'counterparty', 'amount',
        'alike', 'near', 'sum', 'words', 'answer')),
    constraint institution_item_joined_kind_check check (joined_kind in ('transfer', 'refund', 'movement', 'sum', 'investment',
        'block')),
    constraint institution_item_kind_check check (kind in ('pix', 'refund', 'opening_balance', 'fee', 'wire', 'boleto',
        'by_hand', 'reversal', 'judicial', 'other')),
    constraint institution_item_parts_check check ((parts ->> 'count')::integer > 1),
    constraint institution_item_recorded_at_check check (isfinite(recorded_at)),
    constraint institution_item_return_id_check check (length(return_id) >= 1 and length(return_id) <= 64),
    constraint institution_item_settled_at_check check (isfinite(settled_at)),
    constraint institution_item_source_check check (source ~ '^[a-z][a-z0-9.]{0,19}$'),
    constraint institution_item_tax_id_check check (length(tax_id) <= 255),
    constraint institution_item_text_check check (length(text) <= 255),
    constraint institution_item_txid_check check (length(txid) <= 255),
    constraint institution_item_waits_check check (waits in ('announced', 'balance_line', 'perhaps_balance', 'same_line',
        'perhaps_known', 'contradicts', 'changed', 'withdrawn', 'perhaps_struck', 'struck', 'perhaps_back', 'perhaps_text', 'no_money',
        'separated', 'order_unknown', 'could_be_ours', 'not_yet_read', 'day_not_over', 'opening_day', 'before_opening')),
    constraint joined_by_something check ((joined_kind is null) = (joined_id is null) and (joined_kind is null) = (joined_by is
        null)),
    constraint only_a_movement_may_be_struck check (joined_kind is null or waits is null or joined_kind = 'movement' and waits =
        'perhaps_struck'),
    constraint institution_item_institution_id_fkey foreign key (institution_id) references institution_account(id)
);
comment on table institution_item is 'Lines of institutions'' own statements, each once; their contents never change, but an unmatched one may get names.';
comment on column institution_item.institution_id is 'The account.';
comment on column institution_item.item_id is
    'The institution''s name of the line, unique on the account: with its day and a number where another line has it.';
comment on column institution_item.day is 'Its day in Sao Paulo.';
comment on column institution_item.settled_at is 'Its instant by the institution''s clock, if reported.';
comment on column institution_item.direction is 'Whether money came in (IN) or went out (OUT).';
comment on column institution_item.amount_cents is 'How much, in cents.';
comment on column institution_item.kind is 'The institution''s kind.';
comment on column institution_item.end_to_end_id is 'The Pix that it is or is about, as the network calls it.';
comment on column institution_item.return_id is 'The return that it is, as the network calls it.';
comment on column institution_item.txid is 'The txid that the institution reports with it.';
comment on column institution_item.tax_id is 'The counterparty''s CPF or CNPJ, as far as reported.';
comment on column institution_item.counterparty is 'The counterparty''s name, if reported.';
comment on column institution_item.text is 'The institution''s text.';
comment on column institution_item.source is 'The line''s source: a file''s form, or the institution''s API.';
comment on column institution_item.parts is 'For a sum of many Pix, their number and names on the network, as reported.';
comment on column institution_item.recorded_at is
    'When it was first reported, in service time: the time at which its file was made or first read.';
comment on column institution_item.joined_kind is
    'The matched record: a transfer, a refund, a movement, a sum of Pix, an own investment or a block''s debit; null while unmatched.';
comment on column institution_item.joined_id is 'The id of that; of a movement, its item id; of a sum or investment, its own.';
comment on column institution_item.joined_by is 'The evidence that both are one.';
comment on column institution_item.is_reversal is 'Whether it returns the debit of an order that failed.';
comment on column institution_item.fee_of_kind is 'The kind that a fee was charged for: a transfer or a refund.';
comment on column institution_item.fee_of_id is 'The id of that.';
comment on column institution_item.waits is
    'Why it is neither joined nor a movement; of a movement, that a later file has taken it out.';
create index institution_item_alone on institution_item (institution_id, day) where joined_kind is null or waits is not null;
create index institution_item_day on institution_item (institution_id, day);
create index institution_item_moved on institution_item (institution_id, direction, amount_cents, day)
    where joined_kind = 'movement';
create unique index institution_item_of on institution_item (joined_kind, joined_id, institution_id, is_reversal, (
    case joined_kind when 'block' then item_id else '' end));
grant insert, select, update (end_to_end_id, return_id, joined_kind, joined_id, joined_by, is_reversal, fee_of_kind, fee_of_id,
    waits) on table institution_item to pixconnect_service;

create table charge_opening (
    charge_id bigint not null,
    holder_id bigint not null,
    institution_id smallint not null,
    external_id text collate "C" not null,
    txid text collate "C" not null,
    state text not null,
    wanted text not null,
    asked_by text,
    fingerprint bytea not null,
    refusal_code text,
    refusal_reason text,
    calls_count integer default 0 not null,
    due_at timestamp with time zone not null,
    created_at timestamp with time zone not null,
    reference text collate "C",
    network_txid text collate "C",
    wanted_digest bytea,
    code_digest bytea,
    constraint charge_opening_pkey primary key (charge_id, holder_id),
    constraint a_reference_fits_a_static_code check (reference is null or reference ~ '^[a-zA-Z0-9]{1,25}$' and state =
        'opened'),
    constraint a_txid_made_there_is_of_an_open_charge check (network_txid is null or network_txid ~ '^[a-zA-Z0-9]{1,35}$' and
        state = 'opened'),
    constraint charge_opening_asked_by_check check (length(asked_by) <= 4096),
    constraint charge_opening_created_at_check check (isfinite(created_at)),
    constraint charge_opening_due_at_check check (isfinite(due_at)),
    constraint charge_opening_external_id_check check (length(external_id) >= 1 and length(external_id) <= 255),
    constraint charge_opening_refusal_reason_check check (length(refusal_reason) <= 1000),
    constraint charge_opening_state_check check (state in ('opening', 'opened', 'refused', 'given_up')),
    constraint charge_opening_txid_check check (length(txid) >= 26 and length(txid) <= 35),
    constraint charge_opening_wanted_check check (length(wanted) <= 65536),
    constraint refused_with_a_code check ((state = 'refused') = (refusal_code is not null)),
    constraint charge_opening_holder_id_fkey foreign key (holder_id) references holder(id),
    constraint charge_opening_institution_id_fkey foreign key (institution_id) references institution_account(id)
);
comment on table charge_opening is
    'Charges that are being opened, or were opened, at institutions; a charge is visible once it has its code.';
comment on column charge_opening.charge_id is 'The charge''s id, once it is open.';
comment on column charge_opening.holder_id is 'The charge''s holder.';
comment on column charge_opening.institution_id is 'The account at which it is opened.';
comment on column charge_opening.external_id is 'The client''s own name for it.';
comment on column charge_opening.txid is 'Our txid, under which it is opened.';
comment on column charge_opening.state is
    'Opening until the institution''s answer is known; then opened, refused, or given up.';
comment on column charge_opening.wanted is 'The contents to open, as JSON.';
comment on column charge_opening.asked_by is 'The caller, as JSON.';
comment on column charge_opening.fingerprint is 'A hash of the request, to distinguish a replay from a conflict.';
comment on column charge_opening.refusal_code is 'Of the institution, where it was certainly refused.';
comment on column charge_opening.refusal_reason is 'The institution''s refusal, or its last answer.';
comment on column charge_opening.calls_count is 'Number of calls that request the opening.';
comment on column charge_opening.due_at is 'When a worker calls next, in real time.';
comment on column charge_opening.created_at is 'When it was requested, in real time.';
comment on column charge_opening.reference is
    'The reference in the static code that the charge was answered with, by which payments name it; null without one.';
comment on column charge_opening.network_txid is 'The institution''s own txid, if it does not accept ours; null otherwise.';
comment on column charge_opening.wanted_digest is 'SHA-256 of the requested contents.';
comment on column charge_opening.code_digest is 'SHA-256 of the QR code with which it was opened; null before.';
create index charge_opening_due on charge_opening (due_at) where state = 'opening';
create unique index charge_opening_name on charge_opening (external_id, holder_id) where state in ('opening', 'opened');
create index charge_opening_network_txid on charge_opening (network_txid) where network_txid is not null;
create unique index charge_opening_reference on charge_opening (institution_id, reference) where reference is not null;
create unique index charge_opening_txid on charge_opening (institution_id, txid) where state in ('opening', 'opened');

create table charge_change (
    id bigint generated always as identity not null,
    charge_id bigint not null,
    holder_id bigint not null,
    institution_id smallint not null,
    txid text collate "C" not null,
    kind text not null,
    contents text,
    removal text,
    state text not null,
    reason text,
    revision_there integer,
    asked_by text,
    calls_count integer not null,
    due_at timestamp with time zone not null,
    created_at timestamp with time zone not null,
    wanted_digest bytea,
    constraint charge_change_pkey primary key (id),
    constraint a_removal_says_whose_it_is check ((kind = 'remove') = (removal is not null)),
    constraint a_revision_says_something check ((kind = 'revise') = (contents is not null)),
    constraint charge_change_asked_by_check check (length(asked_by) <= 4096),
    constraint charge_change_calls_count_check check (calls_count >= 0),
    constraint charge_change_contents_check check (length(contents) <= 65536),
    constraint charge_change_created_at_check check (isfinite(created_at)),
    constraint charge_change_due_at_check check (isfinite(due_at)),
    constraint charge_change_kind_check check (kind in ('revise', 'remove', 'withdraw')),
    constraint charge_change_reason_check check (length(reason) <= 1000),
    constraint charge_change_removal_check check (removal in ('REMOVED_BY_RECEIVER', 'REMOVED_BY_PSP')),
    constraint charge_change_revision_there_check check (revision_there >= 0),
    constraint charge_change_state_check check (state in ('asked', 'done', 'refused', 'given_up', 'overtaken')),
    constraint charge_change_txid_check check (length(txid) >= 26 and length(txid) <= 35),
    constraint change_is_of_a_charge foreign key (charge_id, holder_id) references charge(id, holder_id),
    constraint charge_change_institution_id_fkey foreign key (institution_id) references institution_account(id)
);
comment on table charge_change is 'Requested changes to charges opened at institutions, and their results.';
comment on column charge_change.id is 'Our own name for it.';
comment on column charge_change.charge_id is 'The charge.';
comment on column charge_change.holder_id is 'The holder of the charge.';
comment on column charge_change.institution_id is 'The account at which the charge was opened.';
comment on column charge_change.txid is 'The charge''s.';
comment on column charge_change.kind is
    'Revise; remove; withdraw: remove a possibly opened charge that has a static code.';
comment on column charge_change.contents is 'The wanted contents of a revised charge, as JSON.';
comment on column charge_change.removal is 'The wanted status of a removed charge: its receiver''s act, or an operator''s.';
comment on column charge_change.state is
    'Asked until the institution''s answer is known; then done, refused, given up (nothing was sent), or overtaken by a payment.';
comment on column charge_change.reason is 'The institution''s refusal, or its last answer.';
comment on column charge_change.revision_there is
    'The institution''s revision of the charge before the call; null until then.';
comment on column charge_change.asked_by is 'The caller, as JSON; null for an operator.';
comment on column charge_change.calls_count is 'How often a request to the institution was begun.';
comment on column charge_change.due_at is 'When a worker calls next, in real time.';
comment on column charge_change.created_at is 'When it was requested, in real time.';
comment on column charge_change.wanted_digest is 'SHA-256 of the requested contents.';
create unique index charge_change_asked on charge_change (charge_id, holder_id) where state = 'asked';
create index charge_change_due on charge_change (institution_id, due_at) where state = 'asked';
create index charge_change_of_charge on charge_change (charge_id, holder_id, id);
grant insert, select, update (state, reason) on table charge_change to pixconnect_operator;
grant insert, select, update (state, reason, revision_there, calls_count, due_at) on table charge_change to pixconnect_service;

create table rail_step (
    order_name text collate "C" not null,
    institution_id smallint not null,
    kind text not null,
    holder_id bigint not null,
    original_end_to_end_id text collate "C",
    amount_cents bigint not null,
    name_there text collate "C",
    state text not null,
    may_be_done boolean default false not null,
    called_at timestamp with time zone,
    outcome text,
    refusal_code text,
    refusal_reason text,
    created_at timestamp with time zone not null,
    only_asked boolean default false not null,
    payee text,
    code_there text collate "C",
    owner_tax_id text,
    owner_name text,
    constraint rail_step_pkey primary key (order_name),
    constraint a_code_has_its_form check (code_there ~ '^[a-zA-Z0-9-]{1,100}$'),
    constraint a_refund_has_its_original check ((kind = 'refund') = (original_end_to_end_id is not null)),
    constraint a_refusal_has_a_code check ((not outcome is distinct from 'refused') = (refusal_code is not null)),
    constraint an_order_has_its_payee check ((kind = 'order') = (payee is not null)),
    constraint an_owner_has_its_form check (length(owner_tax_id) >= 1 and length(owner_tax_id) <= 40 and length(owner_name) <=
        200),
    constraint it_is_called_by_its_name check (name_there is not null or (state in ('new', 'closed'))),
    constraint its_first_call_is_dated check ((state <> all (array['calling', 'asked'])) or called_at is not null),
    constraint rail_step_amount_cents_check check (amount_cents >= 1 and amount_cents <= 999999999999),
    constraint rail_step_called_at_check check (isfinite(called_at)),
    constraint rail_step_created_at_check check (isfinite(created_at)),
    constraint rail_step_kind_check check (kind in ('refund', 'order')),
    constraint rail_step_name_there_check check (name_there ~ '^[a-zA-Z0-9]{1,35}$'),
    constraint rail_step_order_name_check check (length(order_name) = 32),
    constraint rail_step_original_end_to_end_id_check check (length(original_end_to_end_id) = 32),
    constraint rail_step_outcome_check check (outcome in ('answered', 'refused', 'never', 'decided')),
    constraint rail_step_refusal_code_check check (length(refusal_code) >= 1 and length(refusal_code) <= 35),
    constraint rail_step_refusal_reason_check check (length(refusal_reason) <= 1000),
    constraint rail_step_state_check check (state in ('new', 'minted', 'calling', 'asked', 'closed')),
    constraint what_is_asked_may_be_done check (state <> 'asked' or may_be_done),
    constraint what_is_closed_has_an_outcome check ((state = 'closed') = (outcome is not null)),
    constraint what_may_be_done_was_taken check (outcome <> 'never' or not may_be_done),
    constraint rail_step_holder_id_fkey foreign key (holder_id) references holder(id),
    constraint rail_step_institution_id_fkey foreign key (institution_id) references institution_account(id)
);
comment on table rail_step is 'Calls to institutions for our orders: a row each, written before the call.';
comment on column rail_step.order_name is 'The order''s return_id or end_to_end_id.';
comment on column rail_step.institution_id is 'The account at the institution that gets the calls.';
comment on column rail_step.kind is 'A refund of a received Pix, or an order to send one.';
comment on column rail_step.holder_id is 'The holder that sends the money.';
comment on column rail_step.original_end_to_end_id is 'The received Pix, of a refund.';
comment on column rail_step.amount_cents is 'The requested amount, in cents.';
comment on column rail_step.name_there is 'The institution''s name for it; null before that is known.';
comment on column rail_step.state is
    'New: its first step has not named it; minted: named, and not called; calling: a call is in progress or was cut off; asked: it may be executed, and is queried; closed: no more calls are made.';
comment on column rail_step.may_be_done is 'Whether a call of it may have taken effect.';
comment on column rail_step.called_at is 'When it was first called, in real time.';
comment on column rail_step.outcome is
    'Answered: the institution has it; refused for certain; never: no call was made, and none will be; decided: two operators decided how it ended.';
comment on column rail_step.refusal_code is 'Of a certain refusal, as callers see it.';
comment on column rail_step.refusal_reason is 'In the institution''s words.';
comment on column rail_step.created_at is 'In real time.';
comment on column rail_step.only_asked is
    'Whether its order was open at a loss of the database: a call of it may be lost, so it is queried and never repeated.';
comment on column rail_step.payee is 'The payee of an order to send: the key, or the account with its bank; null for a refund.';
comment on column rail_step.code_there is
    'The institution''s own code, where its calls use one; null until reported, and for a first step that moves nothing. It never changes.';
comment on column rail_step.owner_tax_id is
    'The key owner''s tax id from the first step: compared with the caller''s before money moves; else null.';
comment on column rail_step.owner_name is 'The owner''s name from the same step.';
create index rail_step_in_flight on rail_step (institution_id, called_at) where kind = 'order' and (state in ('calling',
    'asked'));
create unique index rail_step_name_there on rail_step (institution_id, name_there, kind);
grant insert, select, update (name_there, state, may_be_done, called_at, outcome, refusal_code, refusal_reason, code_there,
    owner_tax_id, owner_name) on table rail_step to pixconnect_service;

create table refund_day (
    institution_id smallint not null,
    day date not null,
    cents bigint not null,
    constraint refund_day_pkey primary key (institution_id, day),
    constraint refund_day_cents_check check (cents >= 0),
    constraint refund_day_institution_id_fkey foreign key (institution_id) references institution_account(id) on delete cascade
);
comment on table refund_day is 'Refunds accepted over each account per day of Sao Paulo.';
comment on column refund_day.institution_id is 'The account.';
comment on column refund_day.day is 'The day, in service time.';
comment on column refund_day.cents is 'The sum, in cents, regardless of the result.';
grant select on table refund_day to pixconnect_service;

create table transfer_day (
    institution_id smallint not null,
    day date not null,
    cents bigint not null,
    constraint transfer_day_pkey primary key (institution_id, day),
    constraint transfer_day_cents_check check (cents >= 0),
    constraint transfer_day_institution_id_fkey foreign key (institution_id) references institution_account(id) on delete
        cascade
);
comment on table transfer_day is 'Transfers accepted over each account per day of Sao Paulo.';
comment on column transfer_day.institution_id is 'The account.';
comment on column transfer_day.day is 'The day, in service time.';
comment on column transfer_day.cents is 'The sum, in cents, regardless of the result.';
grant select on table transfer_day to pixconnect_service;

create table institution_allowance (
    institution_id smallint not null,
    naming_key bytea default sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) not null,
    refunds_day_cents bigint default 0 not null,
    allowed_by text,
    transfer_cents bigint default 0 not null,
    transfers_day_cents bigint default 0 not null,
    payees text default 'own' not null,
    constraint institution_allowance_pkey primary key (institution_id),
    constraint institution_allowance_allowed_by_check check (length(allowed_by) >= 1 and length(allowed_by) <= 255),
    constraint institution_allowance_payees_check check (payees in ('own', 'known', 'all')),
    constraint institution_allowance_refunds_day_cents_check check (refunds_day_cents >= 0 and refunds_day_cents <=
        999999999999),
    constraint institution_allowance_transfer_cents_check check (transfer_cents >= 0 and transfer_cents <= 999999999999),
    constraint institution_allowance_transfers_day_cents_check check (transfers_day_cents >= 0 and transfers_day_cents <=
        999999999999),
    constraint institution_allowance_institution_id_fkey foreign key (institution_id) references institution_account(id) on
        delete cascade
);
comment on table institution_allowance is
    'The permitted outgoing money of each account at an institution, and the key that names it there.';
comment on column institution_allowance.institution_id is 'The account.';
comment on column institution_allowance.naming_key is
    'The key that derives our names at the institution: a restored database derives the same ones.';
comment on column institution_allowance.refunds_day_cents is
    'Maximum of refunds in a day of Sao Paulo, in cents; 0 is none.';
comment on column institution_allowance.allowed_by is 'The operator that set it last.';
comment on column institution_allowance.transfer_cents is 'Maximum of one transfer, in cents; 0 is none.';
comment on column institution_allowance.transfers_day_cents is
    'Maximum of transfers in a day of Sao Paulo, in cents; 0 is none.';
comment on column institution_allowance.payees is
    'The permitted payees: own is the account''s owner; known adds payees already paid over the account; all permits any payee.';
grant update (refunds_day_cents, allowed_by, transfer_cents, transfers_day_cents, payees) on table institution_allowance to
    pixconnect_operator;
grant select on table institution_allowance to pixconnect_service;

create table charge_revision (
    charge_id bigint not null,
    holder_id bigint not null,
    revision integer not null,
    contents text not null,
    next_digest bytea not null,
    constraint charge_revision_pkey primary key (charge_id, holder_id, revision),
    constraint charge_revision_revision_check check (revision >= 0)
);
comment on table charge_revision is 'The contents of a charge before each change of them.';
comment on column charge_revision.charge_id is 'The charge.';
comment on column charge_revision.holder_id is 'The holder of the charge.';
comment on column charge_revision.revision is 'Which revision the contents were, from 0.';
comment on column charge_revision.contents is 'The contents, as JSON.';
comment on column charge_revision.next_digest is 'SHA-256 of the contents that took their place.';
create trigger check_new after insert on charge_revision for each row execute function check_revisions();
grant insert, select on table charge_revision to pixconnect_service;

create sequence location_id increment 512 maxvalue 35184372088831;
grant usage on sequence location_id to pixconnect_service;

create table location (
    id bigint not null,
    holder_id bigint not null,
    token text collate "C" not null,
    status text not null,
    charge_id bigint,
    created_at timestamp with time zone not null,
    constraint location_pkey primary key (id),
    constraint location_of_charge unique (charge_id, holder_id) deferrable,
    constraint location_token_is_used_once unique (token),
    constraint location_id_check check (id >= 1 and id <= 9007199254740991),
    constraint location_is_bound_to_a_charge check ((charge_id is not null) = (status in ('COB_BOUND', 'COBV_BOUND'))),
    constraint location_status_check check (status in ('COB_FREE', 'COB_BOUND', 'COBV_FREE', 'COBV_BOUND')),
    constraint location_token_check check (token ~ '^[a-zA-Z0-9]{22,35}$')
);
comment on table location is 'The addresses that dynamic QR codes lead to.';
comment on column location.id is 'Counts up, in blocks.';
comment on column location.holder_id is 'The holder that may bind it.';
comment on column location.token is 'The last part of its address.';
comment on column location.status is 'The kind of charge that it is for, and whether it has one.';
comment on column location.charge_id is 'The charge that it leads to; null while it is free.';
comment on column location.created_at is 'When it was made, in service time.';
create index location_list on location ((holder_id + 0), status, created_at, id);
grant insert, select, update (status, charge_id) on table location to pixconnect_service;

create table received_hour (
    holder_id bigint not null,
    hour timestamp with time zone not null,
    count bigint not null,
    constraint received_hour_pkey primary key (holder_id, hour),
    constraint received_hour_holder_id_fkey foreign key (holder_id) references holder(id)
);
comment on table received_hour is
    'How many Pix a holder received in a past hour, counted once when a list first needs it.';
comment on column received_hour.holder_id is 'The holder that received them.';
comment on column received_hour.hour is 'The hour in which they settled, in service time.';
comment on column received_hour.count is 'How many.';
grant delete, insert, select on table received_hour to pixconnect_service;

create table received_known (
    holder_id bigint not null,
    until timestamp with time zone not null,
    constraint received_known_pkey primary key (holder_id),
    constraint received_known_holder_id_fkey foreign key (holder_id) references holder(id)
);
comment on table received_known is 'Up to which hour received_hour is complete; a missing hour before it had none.';
comment on column received_known.holder_id is 'The holder.';
comment on column received_known.until is 'The hours before this instant are counted, in service time.';
grant delete, insert, select, update (until) on table received_known to pixconnect_service;

create table callback_key (
    key_identifier text not null,
    profile text not null,
    public_pem text not null,
    private_sealed bytea not null,
    created_at timestamp with time zone not null,
    constraint callback_key_pkey primary key (key_identifier),
    constraint callback_key_created_at_check check (isfinite(created_at)),
    constraint callback_key_key_identifier_check check (key_identifier ~ '^[0-9a-f]{64}$')
);
comment on table callback_key is
    'The keys that sign callbacks in the format of institutions that publish theirs; if the newest cannot be opened, another is made.';
comment on column callback_key.key_identifier is 'The SHA-256 of the public key in DER, in hexadecimal digits.';
comment on column callback_key.profile is 'The institution as which it signs.';
comment on column callback_key.public_pem is 'The public key, as it is published.';
comment on column callback_key.private_sealed is 'The private key, sealed.';
comment on column callback_key.created_at is 'Real time.';
grant insert, select on table callback_key to pixconnect_service;
