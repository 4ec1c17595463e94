-- Accounts that were there before: nothing may leave over them either.
insert into institution_allowance (institution_id) select id from institution_account on conflict do nothing;
