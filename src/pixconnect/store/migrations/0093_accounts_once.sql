-- A bank account is added once: two rows that are one account there would count its money twice. There are few rows, so the index is
-- made at once; where an institution needs no number, or its client tells which account it is, the verb compares what is sealed.
create unique index institution_account_is_added_once on institution_account (profile, base_url, tax_id, account)
    where account <> '' and removed_at is null and state <> 'closed';
