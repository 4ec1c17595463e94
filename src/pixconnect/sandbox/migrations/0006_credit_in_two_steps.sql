-- A payment from outside that is reported in two steps is one row all the way: when the service has acknowledged its first report,
-- the next one takes that one's place. It is open until the last is acknowledged, and has settled then if it has no code.

alter table arrival add column next_report text;
alter table arrival add column next_after_ms integer;

comment on column arrival.next_report is 'what the service is told once it has acknowledged this report, as JSON; null at the last step';
comment on column arrival.next_after_ms is 'how long after that acknowledgement';
