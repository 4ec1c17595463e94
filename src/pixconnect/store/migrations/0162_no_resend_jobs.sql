-- Jobs that sent many deliveries again are gone: callers replay the events of an interval.

drop table resend_job;
