-- Hosts at which several holders may be told of their Pix keys, because an operator has said so. Elsewhere a host that is told of one
-- holder's keys takes no webhooks of others, in live mode: what it is sent is true, and would look as if it were about its own money.

create table allowed_webhook_host (
    host text primary key, -- ASCII, lower case, without a dot at its end
    allowed_at timestamptz not null default clock_timestamp()
);
grant select on allowed_webhook_host to pixconnect_service;
grant insert on allowed_webhook_host to pixconnect_operator;
