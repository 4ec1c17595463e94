-- outside a transaction
alter table institution_sweep validate constraint institution_sweep_pace_check;
