-- outside a transaction
-- Whose keys a host is told of; the expression is that of store/webhook_host.py.
create index concurrently webhook_endpoint_of_key_by_host on webhook_endpoint
    (rtrim(lower(substring(url from '^[^:]+://(\[[^]]*\]|[^/?#:]*)')), '.')) where pix_key is not null
