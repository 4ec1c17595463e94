-- The scopes of the central bank's Pix API beside ours. Nobody gets one by this step: clients keep what they have until an operator
-- changes them.
alter table client drop constraint scopes_exist;
alter table client add constraint scopes_exist check (
    cardinality(scopes) between 1 and 19
    and scopes <@ array[
        'charge.read', 'charge.write', 'transfer.read', 'transfer.write', 'refund.read', 'refund.write', 'ledger.read',
        'webhook.read', 'webhook.write', 'cob.read', 'cob.write', 'cobv.read', 'cobv.write', 'lotecobv.read', 'lotecobv.write',
        'pix.read', 'pix.write', 'payloadlocation.read', 'payloadlocation.write'
    ]
);
grant update (scopes) on client to pixconnect_operator;
