-- outside a transaction
-- A payment of a static code names its charge by the reference: one on an account, over all its holders.
create unique index concurrently charge_opening_reference on charge_opening (institution_id, reference)
    where reference is not null;
alter table charge_opening validate constraint a_reference_fits_a_static_code;
