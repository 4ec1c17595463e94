-- What payers contest at accounts at institutions is read at a pace of its own.

alter table institution_sweep drop constraint institution_sweep_pace_check;
alter table institution_sweep add constraint institution_sweep_pace_check
    check (pace in ('near', 'wide', 'deep', 'statement', 'contests')) not valid;
