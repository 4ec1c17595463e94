-- outside a transaction
-- Whom a transfer over an account has reached: a key, by itself or by a code that led to it; an account by what it is. Transfers by
-- code would all be one account by the index of before.
create index concurrently transfer_paid_there on transfer (institution_id, (
    case initiation_type when 'MANUAL' then
        (counterparty ->> 'ispb') || '/' || (counterparty ->> 'branch') || '/' || (counterparty ->> 'account_number')
    else counterparty ->> 'key' end
)) where institution_id is not null and direction = 'OUT' and settled_at is not null;
