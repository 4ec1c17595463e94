-- What each table and column means, for whoever looks at the database, and for the pages that are made from it. Comments keep
-- no writer waiting.
--
-- Service time is the instant that callers see, which a sandbox may move; real time is the server's clock.

comment on table holder is 'A person or company with an account here.';
comment on column holder.id is 'Counts up from 1; everything else of a holder names it by this.';
comment on column holder.name is 'The name, as it is in accounts and QR codes.';
comment on column holder.tax_id is 'The CPF (11 characters) or CNPJ (14 characters).';
comment on column holder.city is 'The city, which each QR code names.';
comment on column holder.branch is 'The branch of the account, 1 to 4 digits.';
comment on column holder.account_number is 'The number of the account; no other holder has the same.';
comment on column holder.account_type is 'What kind of account the rail is told that it is.';
comment on column holder.may_deposit is 'Whether money may come in.';
comment on column holder.may_withdraw is 'Whether money may go out by transfers.';
comment on column holder.may_lend is 'Whether the account may lend; only shown, nothing is decided by it.';
comment on column holder.transfer_limit_cents is 'The most that one transfer may be of, in cents; null is no limit.';
comment on column holder.day_limit_cents is 'The most that may be sent in one day of Sao Paulo, in cents; null is no limit.';
comment on column holder.night_limit_cents is
    'The most that may be sent in one night (20:00 to 06:00 in Sao Paulo), in cents; null is no limit.';
comment on column holder.disabled_at is
    'When an operator blocked all clients of the holder, in real time; null while they are let in.';
comment on column holder.created_at is 'When it was opened, in service time.';

comment on table pix_key is 'The Pix keys of our holders: the directory of our own.';
comment on column pix_key.key is 'The key as the network writes it.';
comment on column pix_key.key_type is 'What kind of key it is.';
comment on column pix_key.holder_id is 'The holder who is paid by it.';
comment on column pix_key.created_at is 'When it was given to the holder, in service time.';

comment on table removed_pix_key is
    'The last holder of each Pix key that an operator removed, so that a payment on its way is refused on the right account.';
comment on column removed_pix_key.key is 'The key that was removed.';
comment on column removed_pix_key.holder_id is 'The holder who had it.';
comment on column removed_pix_key.removed_at is
    'When it was removed, in real time; another holder gets it a minute later at the earliest.';

comment on table client is 'The OAuth clients by which programs of holders ask.';
comment on column client.client_id is 'The name by which the client asks for tokens.';
comment on column client.holder_id is 'The holder for whom it acts.';
comment on column client.name is 'What the operator calls it.';
comment on column client.scopes is 'What its tokens may be used for.';
comment on column client.secret_hash is 'The keyed hash of its secret, 32 octets; the secret itself is nowhere.';
comment on column client.created_at is 'When it was made, in real time.';
comment on column client.rotated_at is 'When its secret was last replaced, in real time.';
comment on column client.disabled_at is 'When an operator shut it out, in real time; null while it is let in.';
comment on column client.tokens_from is
    'Tokens that were issued before this instant, in real time, are refused; it never goes back.';
comment on column client.secret_key_id is
    'Which secret key the hash was made with, 8 octets; null is a row that is older than this column.';
comment on column client.certificate is
    'The thumbprint (SHA-256) of the certificate that it must show; null where it needs none.';

comment on table access_revision is
    'The number that moves whenever somebody is shut out or let in again: a process that knows the latest need not look again.';
comment on column access_revision.is_only_row is 'True: there is one row.';
comment on column access_revision.revision is 'Counts up; only triggers move it.';

comment on table token_failure is 'Token requests that failed in the last minute, by which logins are slowed down.';
comment on column token_failure.id is 'Counts up.';
comment on column token_failure.subject is 'A hash of the client_id or of the address for which the failure counts, 16 octets.';
comment on column token_failure.failed_at is 'When it failed, in real time.';

comment on table certificate_authority is
    'The authorities that sign the certificates of our signing keys; the newest signs new ones.';
comment on column certificate_authority.id is 'Counts up.';
comment on column certificate_authority.private_sealed is 'Its private key, encrypted with the secret key.';
comment on column certificate_authority.certificate is 'Its own certificate, in DER.';
comment on column certificate_authority.expires_at is 'When the certificate ends, in real time.';
comment on column certificate_authority.created_at is 'When it was made, in real time.';

comment on table signing_key is 'The keys that sign codes'' payloads and webhooks, of now and of before.';
comment on column signing_key.kid is 'The name of the key, which is the thumbprint of its public part.';
comment on column signing_key.public_jwk is 'The public part, as a JWK.';
comment on column signing_key.private_sealed is
    'The private part, encrypted with the secret key; null once the key signs no more.';
comment on column signing_key.certificates is 'Its chain of certificates, in DER, its own first.';
comment on column signing_key.host is 'The host that its certificate is for.';
comment on column signing_key.expires_at is 'When its certificate ends, in real time.';
comment on column signing_key.created_at is 'When it was made, in real time.';
comment on column signing_key.signs_from is 'From when it signs, in real time; it is published before.';
comment on column signing_key.revoked_at is 'When an operator revoked it, in real time: from then on it verifies nothing.';

comment on table audit is 'What operators did, and what clients changed of their endpoints; rows are never changed or deleted.';
comment on column audit.id is 'Counts up.';
comment on column audit.at is 'When it was done, in real time.';
comment on column audit.operator is 'The person, or the client, who did it.';
comment on column audit.verb is 'What was done, as on the command line: holder set.';
comment on column audit.subject is 'What it was done to: holder 2.';
comment on column audit.before is 'What was there before, as JSON; null where there was nothing.';
comment on column audit.after is 'What was there afterwards, as JSON; null where it was removed.';
comment on column audit.request_id is 'The HTTP request that asked for it; null for the command line.';

comment on table console_operator is 'The people who may sign in to the console.';
comment on column console_operator.name is 'The name by which they sign in.';
comment on column console_operator.role is 'Whether they may only look (reader) or also act (operator).';
comment on column console_operator.password_hash is 'The hash of the password by argon2id, with its parameters and salt.';
comment on column console_operator.totp_sealed is 'The secret of the second factor, encrypted with the secret key.';
comment on column console_operator.totp_step is 'The last step of 30 s whose code was used: each code is good once.';
comment on column console_operator.recovery_hashes is 'The hashes of the recovery codes that are left.';
comment on column console_operator.created_at is 'When the operator was made, in real time.';
comment on column console_operator.reset_at is 'When password and second factor were last given anew, in real time.';

comment on table console_session is 'The sessions of people at the console.';
comment on column console_session.id is 'Counts up.';
comment on column console_session.token_hash is 'The hash of the session''s token, 32 octets; the token itself is nowhere.';
comment on column console_session.kind is 'Whose session it is: an operator''s, one by a link of a sandbox, or a holder''s.';
comment on column console_session.operator_name is 'The operator who signed in, in sessions of that kind only.';
comment on column console_session.client_id is 'The client by which a holder signed in, in sessions of that kind only.';
comment on column console_session.created_at is 'When it began, in real time.';
comment on column console_session.seen_at is 'When it was last used, in real time.';
comment on column console_session.expires_at is 'When it ends unless it is used before, in real time.';

comment on table console_link is 'Links that sign in to the console of a sandbox once, without a password.';
comment on column console_link.token_hash is 'The hash of the token in the link, 32 octets.';
comment on column console_link.expires_at is 'Until when it may be used, in real time.';
comment on column console_link.used_at is 'When it was used, in real time.';

comment on table origin_batch is
    'Who asked for what: a row for what one client asked for by one token from one address in one batch; kept for 400 days.';
comment on column origin_batch.id is 'Counts up.';
comment on column origin_batch.kind is 'What the facts are: charge, charge_change, transfer, refund or endpoint.';
comment on column origin_batch.holder_id is 'The holder whose facts they are.';
comment on column origin_batch.client_id is 'The client that asked; null where an operator did.';
comment on column origin_batch.jti is 'The id of the access token; null for the console.';
comment on column origin_batch.peer is 'The address from which it was asked.';
comment on column origin_batch.operator is 'The operator who asked, as the audit names them; null where a client did.';
comment on column origin_batch.at is 'The instant that the facts themselves have, by which they are found.';
comment on column origin_batch.written_at is 'When the row was written, in real time; what is old is deleted by this.';
comment on column origin_batch.ids is 'The ids of the facts.';
comment on column origin_batch.request_ids is 'The HTTP request that asked for each of them, in the same order.';

comment on view origin is
    'Who asked for each charge, transfer, refund and change of an endpoint: a row of origin_batch for each fact.';
comment on column origin.kind is 'What the fact is: charge, charge_change, transfer, refund or endpoint.';
comment on column origin.id is 'The id of the fact.';
comment on column origin.holder_id is 'The holder whose fact it is.';
comment on column origin.client_id is 'The client that asked; null where an operator did.';
comment on column origin.jti is 'The id of the access token; null for the console.';
comment on column origin.peer is 'The address from which it was asked.';
comment on column origin.request_id is 'The HTTP request that asked for it.';
comment on column origin.operator is 'The operator who asked; null where a client did.';
comment on column origin.at is 'The instant that the fact itself has.';
comment on column origin.written_at is 'When it was written, in real time.';

comment on table balance is 'What each holder has, in four accounts whose sum is zero; only ledger entries move it.';
comment on column balance.holder_id is 'The holder whose money it is.';
comment on column balance.available_cents is 'What may be spent, in cents; never negative.';
comment on column balance.reserved_cents is 'What is held for transfers and refunds under way, in cents; never negative.';
comment on column balance.settlement_cents is
    'What came over the rail, as a negative number, and what went out over it, in cents.';
comment on column balance.funding_cents is 'What was deposited as play money, as a negative number, in cents.';
comment on column balance.last_number is 'The number of the last entry that changed available + reserved.';
comment on column balance.last_entry_at is 'The instant of that entry, in service time: the next one is dated later.';
comment on column balance.modified_at is 'When an entry last moved it, in service time.';

comment on table ledger_entry is
    'Amounts, each moved from one account of a holder to another of the same holder; rows are never changed or deleted.';
comment on column ledger_entry.id is 'Counts up; unique together with the holder.';
comment on column ledger_entry.holder_id is 'The holder whose accounts they are.';
comment on column ledger_entry.debit_account is 'The account that the amount leaves.';
comment on column ledger_entry.credit_account is 'The account that the amount enters.';
comment on column ledger_entry.amount_cents is 'How much, in cents; always positive.';
comment on column ledger_entry.number is
    'The place in the statement, counted from 1 without gaps; null where available + reserved stays the same.';
comment on column ledger_entry.running_balance_cents is
    'Available + reserved after this entry, in cents; null where it has no number.';
comment on column ledger_entry.transfer_id is 'The transfer that is its cause.';
comment on column ledger_entry.refund_id is
    'The refund that is its cause; without either the cause is the deposit of the same id.';
comment on column ledger_entry.created_at is 'When it was written, in service time.';

comment on table deposit is 'Play money that was put into accounts of a sandbox; rows are never changed or deleted.';
comment on column deposit.id is 'The id of its ledger entry too.';
comment on column deposit.holder_id is 'The holder who got it.';
comment on column deposit.amount_cents is 'How much, in cents.';
comment on column deposit.created_at is 'When it was made, in service time.';

comment on table charge is
    'Requests to be paid, each with a QR code; the contract''s charges and the standard''s are the same.';
comment on column charge.id is 'Counts up, in blocks.';
comment on column charge.holder_id is 'The holder who wants to be paid.';
comment on column charge.external_id is 'The client''s own name for it, unique for the holder: the idempotency key.';
comment on column charge.fingerprint is 'A hash of the request that made it, which tells a replay from a conflict.';
comment on column charge.txid is 'Its name on the network, 26 to 35 letters and digits.';
comment on column charge.amount_cents is 'How much, in cents; 0 where the payer chooses, until it is paid.';
comment on column charge.key is 'The Pix key that is paid.';
comment on column charge.payer_name is 'The name of the only one who may pay; null where anybody may.';
comment on column charge.payer_tax_id is 'The CPF or CNPJ of the only one who may pay.';
comment on column charge.br_code is 'The QR code as text.';
comment on column charge.status is 'How far it is.';
comment on column charge.slot is 'The slot of work it belongs to, 0 to 255: one worker at a time looks after it.';
comment on column charge.created_at is 'When it was made, in service time.';
comment on column charge.modified_at is 'When it last changed, in service time.';
comment on column charge.expires_at is 'From when it cannot be paid, in service time.';
comment on column charge.held_by is
    'The transfer that was accepted for it and has not ended: nobody else can pay it, and it does not expire.';
comment on column charge.contents is
    'The standard''s latest contents, as JSON; null for a charge of the contract that the standard never changed.';
comment on column charge.revision is 'How often its contents were changed; null is never.';
comment on column charge.is_unbound is 'Whether its location was taken away, so that no code leads to it; null is no.';

comment on table transfer is 'Money moved over the rail, or by book between two holders of ours, which makes a row for each.';
comment on column transfer.id is 'Counts up, in blocks; unique together with the holder.';
comment on column transfer.holder_id is 'The holder from or to whom it goes.';
comment on column transfer.direction is 'Whether it came in (IN) or went out (OUT).';
comment on column transfer.initiation_type is 'How the payer named the payee: by key, by account (MANUAL) or by QR code.';
comment on column transfer.is_book is 'Whether it is between two holders of ours, without the rail.';
comment on column transfer.external_id is
    'The client''s own name for an outgoing one, unique for the holder: the idempotency key.';
comment on column transfer.fingerprint is
    'A hash of the request that made an outgoing one, which tells a replay from a conflict.';
comment on column transfer.end_to_end_id is
    'Its name on the network; of an outgoing one ours, which the rail is asked by and which never changes.';
comment on column transfer.correlation_id is 'The id that everything of one payment shares, refunds included.';
comment on column transfer.txid is 'The txid of the QR code that it pays; null without one.';
comment on column transfer.charge_id is 'The charge that an incoming one pays, or was refused for.';
comment on column transfer.amount_cents is 'How much, in cents.';
comment on column transfer.status is 'How far it is.';
comment on column transfer.own_key is
    'The key of the holder that an incoming one was paid to; null where it named the account.';
comment on column transfer.counterparty is 'Who is on the other side, as JSON: name, tax id, institution, account.';
comment on column transfer.outcome_code is 'Why it failed, as a code of the network or of ours; null otherwise.';
comment on column transfer.outcome_reason is 'Why it failed, in words.';
comment on column transfer.returned_cents is 'How much of it has been given back by refunds that settled, in cents.';
comment on column transfer.returning_cents is 'How much of it is in refunds under way, in cents.';
comment on column transfer.slot is 'The slot of work it belongs to, 0 to 255: its charge''s and its refunds'' too.';
comment on column transfer.handed_at is
    'When an outgoing one was handed to the rail, in service time; while it is under way only open_order says it.';
comment on column transfer.settled_at is 'When it settled, in service time; null where it has not.';
comment on column transfer.created_at is 'When it was written, in service time.';
comment on column transfer.modified_at is 'When it last changed, in service time.';
comment on column transfer.network_id is
    'What the network calls an outgoing one where that is not end_to_end_id; written once.';
comment on column transfer.payer_message is 'What the payer of an incoming one wrote.';
comment on column transfer.namesake is
    'Tells rows of one name apart that were there before a name was one fact; 0 for all others.';
comment on column transfer.acceptance_refused is
    'Whether we refused an incoming one before it settled: if it settles all the same, a person has to see it.';

comment on table refund is 'Transfers given back, wholly or in part, over the rail or by book.';
comment on column refund.id is 'Counts up, in blocks; unique together with the holder.';
comment on column refund.holder_id is 'The holder who gives back or gets back.';
comment on column refund.transfer_id is 'The transfer that is given back.';
comment on column refund.flow is 'Whether money comes back to the holder (IN) or goes back from the holder (OUT).';
comment on column refund.is_book is 'Whether it is between two holders of ours, without the rail.';
comment on column refund.external_id is
    'The client''s own name for an outgoing one, unique for the holder: the idempotency key.';
comment on column refund.fingerprint is
    'A hash of the request that made an outgoing one, which tells a replay from a conflict.';
comment on column refund.return_id is
    'Its name on the network; of an outgoing one ours, which the rail is asked by and which never changes.';
comment on column refund.original_end_to_end_id is
    'The name of its transfer as callers see it: it follows when the network''s own is told.';
comment on column refund.correlation_id is 'The id that everything of one payment shares.';
comment on column refund.amount_cents is 'How much, in cents.';
comment on column refund.status is 'How far it is.';
comment on column refund.reason is 'Why it is given back, as the network''s code.';
comment on column refund.description is 'Why it is given back, in words, up to 140 characters.';
comment on column refund.outcome_code is 'Why it failed, as a code of the network or of ours; null otherwise.';
comment on column refund.outcome_reason is 'Why it failed, in words.';
comment on column refund.slot is 'The slot of work it belongs to, 0 to 255: its transfer''s.';
comment on column refund.handed_at is
    'When an outgoing one was handed to the rail, in service time; while it is under way only open_order says it.';
comment on column refund.settled_at is 'When it settled, in service time; null where it has not.';
comment on column refund.created_at is 'When it was written, in service time.';
comment on column refund.modified_at is 'When it last changed, in service time.';
comment on column refund.network_id is 'What the network calls an outgoing one where that is not return_id; written once.';
comment on column refund.namesake is
    'Tells rows of one name apart that were there before a name was one fact; 0 for all others.';

comment on table open_order is
    'Outgoing transfers and refunds that the rail has not ended: a row is added with each and removed with its end.';
comment on column open_order.name is 'Its end_to_end_id (begins with E) or return_id (begins with D).';
comment on column open_order.holder_id is 'The holder from whom the money goes.';
comment on column open_order.resource_id is 'The id of the transfer or refund.';
comment on column open_order.slot is 'The slot of work it belongs to, 0 to 255.';
comment on column open_order.ordered_at is 'When it was accepted, in service time.';
comment on column open_order.due_at is 'When a worker looks at it next, in service time.';
comment on column open_order.give_up_at is 'When it is cancelled if it was not handed over until then, in service time.';
comment on column open_order.handed_at is
    'When it was marked to be handed to the rail, in service time: from then on only the rail can end it.';
comment on column open_order.asked_count is 'How often the rail was asked what became of it.';
comment on column open_order.network_id is
    'What the network calls it where that is not its name; as in its transfer or refund.';

comment on table allowed_posting is
    'The entries that a deposit, transfer or refund in a status has: these, once each, and no others.';
comment on column allowed_posting.kind is 'What has them: deposit, transfer or refund.';
comment on column allowed_posting.direction is 'Whether money comes in (IN) or goes out (OUT).';
comment on column allowed_posting.is_book is 'Whether it is between two holders of ours.';
comment on column allowed_posting.status is 'The status that has the entry.';
comment on column allowed_posting.debit_account is 'The account that the amount leaves.';
comment on column allowed_posting.credit_account is 'The account that the amount enters.';

comment on table allowed_transition is 'The changes of status that are possible; what is not here is refused.';
comment on column allowed_transition.kind is 'What changes: charge, transfer or refund.';
comment on column allowed_transition.direction is 'Whether money comes in (IN) or goes out (OUT).';
comment on column allowed_transition.is_book is 'Whether it is between two holders of ours.';
comment on column allowed_transition.before is 'The status before; NEW for what is made.';
comment on column allowed_transition.after is 'The status afterwards.';

comment on table kept_report is 'Reports of the rail that can neither be recorded nor passed over: each waits for a person.';
comment on column kept_report.id is 'Counts up.';
comment on column kept_report.kind is 'What the rail reported.';
comment on column kept_report.reason is 'Why it could not be recorded.';
comment on column kept_report.explanation is 'The same in words, for the person who looks at it.';
comment on column kept_report.name is 'The name on the network of the transfer, refund or return that it is about.';
comment on column kept_report.report_id is 'The id by which it was acknowledged to the rail.';
comment on column kept_report.report is 'What the rail said, as JSON, whatever texts it has.';
comment on column kept_report.fingerprint is 'A hash of the report: the same one is kept once, however often it comes.';
comment on column kept_report.refusal_code is
    'The code by which a payment or return was refused; it is refused so whenever it comes again.';
comment on column kept_report.seen_count is 'How often it came.';
comment on column kept_report.first_seen_at is 'When it came first, in real time.';
comment on column kept_report.last_seen_at is 'When it came last, in real time.';
comment on column kept_report.closed_at is 'When an operator closed it, in real time; null while it waits.';
comment on column kept_report.closed_by is 'The operator who closed it.';
comment on column kept_report.close_reason is 'Why, in the operator''s words.';

comment on table refused_credit is
    'Payments that were refused because nobody here had the account; each stays refused for 30 days.';
comment on column refused_credit.name is 'The end_to_end_id of the payment.';
comment on column refused_credit.kind is 'What the rail reported of it.';
comment on column refused_credit.refusal_code is 'The code by which it was refused.';
comment on column refused_credit.refused_at is 'When it was refused, in real time; what is old is deleted by this.';

comment on table tally is
    'How many charges, transfers, refunds and locations of a status a holder has, by hour; and what was sent, in cents.';
comment on column tally.holder_id is 'The holder whose they are.';
comment on column tally.kind is 'What is counted; of spent the cents are summed.';
comment on column tally.status is 'The status they have now; of spent OUT.';
comment on column tally.hour is 'The hour in which they were made, in service time.';
comment on column tally.count is 'How many, or how many cents.';

comment on table tally_change is
    'What must still be added to tally: batches only add rows here, and housekeeping sums them up.';
comment on column tally_change.holder_id is 'The holder whose they are.';
comment on column tally_change.kind is 'What is counted; of spent the cents are summed.';
comment on column tally_change.status is 'The status whose count changes.';
comment on column tally_change.hour is 'The hour in which they were made, in service time.';
comment on column tally_change.change is 'How many more, or fewer where it is negative.';

comment on table charge_revision is 'The contents of a charge before each change of them.';
comment on column charge_revision.charge_id is 'The charge.';
comment on column charge_revision.holder_id is 'The holder of the charge.';
comment on column charge_revision.revision is 'Which revision the contents were, from 0.';
comment on column charge_revision.contents is 'The contents, as JSON.';

comment on table location is 'The addresses that dynamic QR codes lead to.';
comment on column location.id is 'Counts up, in blocks.';
comment on column location.holder_id is 'The holder who may bind it.';
comment on column location.token is 'The last part of its address.';
comment on column location.status is 'What kind of charge it is for, and whether it has one.';
comment on column location.charge_id is 'The charge that it leads to; null while it is free.';
comment on column location.created_at is 'When it was made, in service time.';

comment on table received_hour is
    'How many Pix a holder received in an hour that is over, counted once when a list first asks for it.';
comment on column received_hour.holder_id is 'The holder who received them.';
comment on column received_hour.hour is 'The hour in which they settled, in service time.';
comment on column received_hour.count is 'How many.';

comment on table received_known is 'Up to which hour received_hour is complete; an hour before it that is not there had none.';
comment on column received_known.holder_id is 'The holder.';
comment on column received_known.until is 'The hours before this instant are counted, in service time.';

comment on table event is 'What happened to charges, transfers and refunds; written with the fact, partitioned by id.';
comment on column event.id is 'Rises with the events of one resource, in the order in which they happened.';
comment on column event.holder_id is 'The holder whose fact it is.';
comment on column event.name is 'What happened: transfer.out.confirmed.';
comment on column event.resource is 'What it happened to: charge, transfer or refund.';
comment on column event.resource_id is 'The id of that.';
comment on column event.slot is 'The slot of work it belongs to, 0 to 255.';
comment on column event.body is 'The very text that is sent, on each attempt.';
comment on column event.created_at is 'When it happened, in service time.';

comment on table event_feed is 'The order in which events are read by cursor, given after the commit; partitioned by position.';
comment on column event_feed.position is 'The place in the feed, which never changes.';
comment on column event_feed.holder_id is 'The holder who reads them.';
comment on column event_feed.event_ids is 'The events at this place, 1 to 200, in the order of their ids.';

comment on table event_feed_state is 'How far positions have been given; whoever gives some holds a lock on the one row.';
comment on column event_feed_state.is_only_row is 'True: there is one row.';
comment on column event_feed_state.last_position is 'The last position that was given.';
comment on column event_feed_state.given_at is 'When that was, in real time.';
comment on column event_feed_state.settled_id is 'Each event up to this id that will ever be there has its position.';
comment on column event_feed_state.settled_position is 'The events beyond settled_id stand behind this position.';
comment on column event_feed_state.asked_id is 'What settled_id becomes when the transactions in asked_of have ended.';
comment on column event_feed_state.asked_position is 'What settled_position becomes then.';
comment on column event_feed_state.asked_of is 'The transactions that may still write an event up to asked_id.';
comment on column event_feed_state.swept_id is 'Each event up to this id was looked for a second time.';
comment on column event_feed_state.swept_position is 'The events beyond swept_id stand behind this position.';
comment on column event_feed_state.next_id is 'Up to which id the next sweep goes.';
comment on column event_feed_state.next_position is 'What swept_position becomes then.';

comment on table webhook_endpoint is 'The addresses that are told of events; those of a Pix key are here too.';
comment on column webhook_endpoint.id is 'Counts up.';
comment on column webhook_endpoint.holder_id is 'The holder whose events are sent there.';
comment on column webhook_endpoint.url is 'The address.';
comment on column webhook_endpoint.event_types is 'The names of the events that are sent there.';
comment on column webhook_endpoint.status is
    'Whether deliveries are made (active), not wanted (inactive) or given up (disabled).';
comment on column webhook_endpoint.status_reason is 'Why it was disabled; null otherwise.';
comment on column webhook_endpoint.secret is 'The secret of its signatures, encrypted with the secret key.';
comment on column webhook_endpoint.previous_secret is
    'The secret before, encrypted with the secret key; it signs too for a time.';
comment on column webhook_endpoint.previous_secret_until is 'Until when it does, in service time.';
comment on column webhook_endpoint.first_failure_at is
    'When the first attempt failed since the last success, in service time; null if none did.';
comment on column webhook_endpoint.resumed_at is 'Since when what waited for it is dated anew; null when all of it is.';
comment on column webhook_endpoint.created_at is 'When it was made, in service time.';
comment on column webhook_endpoint.modified_at is 'When it last changed, in service time.';
comment on column webhook_endpoint.pix_key is
    'The Pix key whose payments it is told of; null for an endpoint that callers name by its id.';

comment on table removed_endpoint is
    'The newest twenty endpoints that each holder removed, so that what was sent to them can still be found.';
comment on column removed_endpoint.id is 'The id that the endpoint had.';
comment on column removed_endpoint.holder_id is 'The holder who had it.';
comment on column removed_endpoint.removed_at is 'When it was removed, in real time.';

comment on table key_webhook is 'The webhook of each Pix key, as the central bank''s Pix API has them.';
comment on column key_webhook.pix_key is 'The key; it has one webhook at most.';
comment on column key_webhook.holder_id is 'The holder of the key.';
comment on column key_webhook.endpoint_id is 'The endpoint that is told.';
comment on column key_webhook.created_at is 'When it was last set, in service time.';

comment on table delivery is 'One event for one endpoint, written with the event; partitioned by id.';
comment on column delivery.id is 'Counts up.';
comment on column delivery.holder_id is 'The holder of the endpoint.';
comment on column delivery.endpoint_id is 'The endpoint to be told; it may have been removed since.';
comment on column delivery.event_id is 'The event that it is told of.';
comment on column delivery.resource is 'What the event happened to; pix for the webhook of a key.';
comment on column delivery.resource_id is 'The id of that: events of one resource go to an endpoint in their order.';
comment on column delivery.slot is 'The slot of work it belongs to, 0 to 255.';
comment on column delivery.status is 'Whether it is still to be made, was made, or was given up.';
comment on column delivery.due_at is 'When the next attempt is made, in service time; null once it is delivered or failed.';
comment on column delivery.attempts_count is 'How many attempts were made.';
comment on column delivery.failures_count is 'How many of them failed in this schedule; sending it again begins a new one.';
comment on column delivery.created_at is 'When the event happened, in service time.';
comment on column delivery.modified_at is 'When it last changed, in service time.';
comment on column delivery.notice is
    'The one body for several deliveries of a key''s webhook, kept in the first of them before it is sent.';
comment on column delivery.covers is 'The other deliveries that this body tells of.';
comment on column delivery.covered_by is 'The delivery that holds the body which tells of this one.';

comment on table delivery_attempt is 'Each POST of a delivery and its answer; partitioned as deliveries are.';
comment on column delivery_attempt.delivery_id is 'The delivery.';
comment on column delivery_attempt.number is 'Which attempt of it, from 1.';
comment on column delivery_attempt.started_at is 'When it began, in service time.';
comment on column delivery_attempt.status_code is 'The HTTP status that was answered; null without an answer.';
comment on column delivery_attempt.duration_us is 'How long it took, in microseconds.';
comment on column delivery_attempt.response is 'The beginning of what was answered.';
comment on column delivery_attempt.error is 'What went wrong without an answer; null otherwise.';

comment on table webhook_tally is 'How many events a holder and how many deliveries an endpoint has, by hour.';
comment on column webhook_tally.kind is 'What is counted: event or delivery.';
comment on column webhook_tally.owner_id is 'The holder of events, the endpoint of deliveries.';
comment on column webhook_tally.status is 'All that were made, or what they became.';
comment on column webhook_tally.hour is 'The hour in which they were made, in service time.';
comment on column webhook_tally.count is 'How many.';

comment on table webhook_tally_change is
    'What must still be added to webhook_tally: triggers only add rows here, and housekeeping sums them up.';
comment on column webhook_tally_change.kind is 'What is counted: event or delivery.';
comment on column webhook_tally_change.owner_id is 'The holder of events, the endpoint of deliveries.';
comment on column webhook_tally_change.status is 'All that were made, or what they became.';
comment on column webhook_tally_change.hour is 'The hour in which they were made, in service time.';
comment on column webhook_tally_change.change is 'How many more, or fewer where it is negative.';

comment on table resend_job is
    'Jobs that send many deliveries of a holder again; a worker goes on from where the last one was.';
comment on column resend_job.id is 'Counts up.';
comment on column resend_job.holder_id is 'The holder whose deliveries they are.';
comment on column resend_job.asked_by is 'Who asked for it: a client, or an operator.';
comment on column resend_job.endpoint_id is 'The only endpoint whose deliveries are sent again; null is all of them.';
comment on column resend_job.statuses is 'The statuses of the deliveries that are sent again.';
comment on column resend_job.event_types is 'The names of the events that are sent again; an empty list is all.';
comment on column resend_job.initial_at is 'The first instant of the deliveries, in service time.';
comment on column resend_job.final_at is 'The instant before which they were made, in service time.';
comment on column resend_job.status is 'Whether it runs, is done or was cancelled.';
comment on column resend_job.expected_count is 'How many deliveries were expected to be looked at when it was asked for.';
comment on column resend_job.looked_at_count is 'How many have been looked at.';
comment on column resend_job.resent_count is 'How many of them have been sent again.';
comment on column resend_job.at_endpoint_id is 'The endpoint at which it is: all of those before it are done.';
comment on column resend_job.at_instant is
    'The instant of the last delivery of that endpoint that was looked at; null before the first.';
comment on column resend_job.at_id is 'The id of that delivery.';
comment on column resend_job.created_at is 'When it was asked for, in service time.';
comment on column resend_job.ended_at is 'When it was done or cancelled, in service time; null while it runs.';

comment on table allowed_webhook_host is
    'The hosts that may be told of the Pix keys of several holders in live mode, because an operator said so.';
comment on column allowed_webhook_host.host is 'The host in ASCII and lower case, without a dot at its end.';
comment on column allowed_webhook_host.allowed_at is 'When an operator allowed it, in real time.';

comment on table schema_version is 'The migrations that made these tables.';
comment on column schema_version.version is 'The number of the migration.';
comment on column schema_version.name is 'Its name.';
comment on column schema_version.checksum is
    'The SHA-256 of its text, in hex: a program with another text refuses these tables.';
comment on column schema_version.applied_at is 'When it was applied, in real time.';

comment on table installation is 'What these tables are for, and the server on which they were last seen.';
comment on column installation.is_only_row is 'True: there is one row.';
comment on column installation.mode is 'Whether it is a sandbox or live; it never changes.';
comment on column installation.made_at is 'When the mode was set, in real time.';
comment on column installation.system_identifier is
    'The identifier of the server''s data folder: a restore by pg_dump has another.';
comment on column installation.timeline is
    'The server''s timeline: another after a restore to a point in time, and after a standby took over.';
comment on column installation.seen_at is 'When a process last compared it, in real time.';
comment on column installation.database_oid is
    'The database''s number on the server: another where a dump was restored beside its original.';
comment on column installation.started_at is
    'When the server was started that was seen last, in real time: another start may be that of a copy.';
comment on column installation.first_transfer_id is
    'The first transfer id after the server''s last start: transfers with lower ids were open before it, or about to be.';
comment on column installation.first_refund_id is 'The same for refunds.';

comment on table clock is 'How far the sandbox has moved service time from real time; in live mode always zero.';
comment on column clock.is_only_row is 'True: there is one row.';
comment on column clock.offset_us is 'How far, in microseconds.';
comment on column clock.revision is 'Counts up each time it is moved.';

comment on table worker is 'The workers that are there: each renews its row by the server''s clock.';
comment on column worker.id is 'Counts up, and begins again at its largest value.';
comment on column worker.expires_at is 'When it counts as gone unless it renews its row, in real time.';
comment on column worker.oldest_due_at is
    'Since when the oldest delivery is due that it could make and has not made, in real time.';

comment on table slot_lease is 'The 256 slots of work, and the worker that has each.';
comment on column slot_lease.slot is 'The slot, 0 to 255.';
comment on column slot_lease.epoch is
    'Counts up each time another worker takes the slot: what the former one writes is refused by it.';
comment on column slot_lease.worker_id is 'The worker that has it; null while nobody has.';

comment on table event_partition is 'The partitions of events, deliveries and the feed; attempts go with their deliveries.';
comment on column event_partition.name is 'The partition''s own table.';
comment on column event_partition.parent is 'The table that it is a part of.';
comment on column event_partition.first_id is 'The first id, or position, that it may hold.';
comment on column event_partition.end_id is 'The first that it may not hold.';
comment on column event_partition.begun_at is 'When its first id was given out, in real time; null before.';
comment on column event_partition.closed_at is 'When its last id was given out, in real time; null before.';
comment on column event_partition.detached_at is 'When it was taken off its parent, in real time: it is dropped next.';

comment on table partition_pass is 'When partitions were last looked after, and for how long they are kept.';
comment on column partition_pass.is_only_row is 'True: there is one row.';
comment on column partition_pass.passed_at is 'When they were last looked after, in real time.';
comment on column partition_pass.jumped_at is
    'When two passes were last too far apart to tell how much time had really passed.';
comment on column partition_pass.retention is 'How long they are kept at least after they were closed, as the owner set it.';

comment on table id_high_water is
    'How far each sequence was at an instant: after a restore it is moved beyond what can have been given out since.';
comment on column id_high_water.sequence is 'The sequence.';
comment on column id_high_water.ids_per_s_max is 'The most ids a second that it may give out.';
comment on column id_high_water.last_id is 'The last id that had been given out.';
comment on column id_high_water.noted_at is 'When that was noted, in real time.';

comment on table database_loss is
    'Each time that the database was seen to have forgotten something; an operator has to read of it.';
comment on column database_loss.id is 'Counts up.';
comment on column database_loss.noticed_at is 'When it was noticed, in real time.';
comment on column database_loss.reason is 'What was seen.';
comment on column database_loss.system_identifier is 'The identifier of the server that had forgotten it.';
comment on column database_loss.timeline_before is 'The timeline that was known before; null where the server was another.';
comment on column database_loss.position_before is
    'How far its write-ahead log was known to be, in octets; null where the server was another.';
comment on column database_loss.orders_count is
    'How many orders were open then; all of them have counted as handed over since.';
comment on column database_loss.recovered_at is 'When an operator had read of it, in real time; null until then.';
comment on column database_loss.recovered_by is 'That operator.';
comment on column database_loss.started_at is 'When the server was started that had forgotten something, in real time.';

comment on table offending_row is
    'Rows of before a rule that break it, and that an operator let stay: the rule passes them over.';
comment on column offending_row.table_name is 'The table of the row.';
comment on column offending_row.id is 'The id of the row.';
comment on column offending_row.holder_id is 'The holder of the row.';
comment on column offending_row.rule is 'The rule that it breaks, in words.';
comment on column offending_row.found_at is 'When it was listed, in real time.';
