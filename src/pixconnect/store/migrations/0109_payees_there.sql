-- outside a transaction
alter table institution_allowance validate constraint institution_allowance_transfer_cents_check;
alter table institution_allowance validate constraint institution_allowance_transfers_day_cents_check;
alter table institution_allowance validate constraint institution_allowance_payees_check;
-- Whom a transfer over an account has reached: a key as it was named, an account by what it is.
create index concurrently transfer_payee_there on transfer (institution_id, (
    case initiation_type when 'KEY' then counterparty ->> 'key' else
        (counterparty ->> 'ispb') || '/' || (counterparty ->> 'branch') || '/' || (counterparty ->> 'account_number')
    end
)) where institution_id is not null and direction = 'OUT' and settled_at is not null;
