-- outside a transaction
-- Whom a holder has paid: the key, by itself or by a code, or the account; with the owner as far as one was known.
create index concurrently transfer_payee on transfer (
    holder_id,
    (case initiation_type when 'MANUAL' then
        (counterparty ->> 'ispb') || '/' || (counterparty ->> 'branch') || '/' || (counterparty ->> 'account_number')
    else coalesce(
        counterparty ->> 'key',
        (counterparty ->> 'ispb') || '/' || (counterparty ->> 'branch') || '/' || (counterparty ->> 'account_number')
    ) end),
    (counterparty ->> 'tax_id')
) where direction = 'OUT' and settled_at is not null and not is_book;
create index concurrently open_order_awaiting on open_order (give_up_at) where approval = 'awaited';
alter table holder validate constraint holder_approve_above_cents_check;
alter table open_order validate constraint open_order_approval_check;
alter table open_order validate constraint what_waits_for_an_approval_is_not_marked;
