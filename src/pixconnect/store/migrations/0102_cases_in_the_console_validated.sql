-- outside a transaction
alter table institution_proposal validate constraint confirmed_by_another;
alter table adjustment validate constraint adjusted_by_two;
