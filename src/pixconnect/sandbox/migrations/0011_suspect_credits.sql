-- Suspect credits: the institution has such a payment from when the service has heard that it is held until it is let go, released
-- or returned.

alter table arrival add column held_at timestamptz;
alter table arrival add column let_go_at timestamptz;

comment on column arrival.held_at is
    'Since when it is held as suspect, by the sandbox''s clock; null where it never was.';
comment on column arrival.let_go_at is
    'When it was released or returned, by the sandbox''s clock; null where it was not held or still is.';
