-- What the institution moves by itself comes from outside like payments do, and the service is told of it in the same way. A fee of
-- a payment is written with the payment, and waits for it.

alter table arrival drop constraint arrival_kind_check;
alter table arrival add constraint arrival_kind_check
    check (kind in ('credit', 'return', 'movement_in', 'movement_out')) not valid;
alter table arrival add column waits_for text;

comment on table arrival is 'Payments and returns from outside, and what the institution moves by itself, of which the service is told.';
comment on column arrival.id is 'The end_to_end_id of a payment, the return_id of a return, or the item of a movement.';
comment on column arrival.kind is
    'Whether it is a payment (credit), a return, or what the institution pays in or takes out (movement_in, movement_out).';
comment on column arrival.original_id is 'The transfer that a return gives back; null for all others.';
comment on column arrival.waits_for is 'The payment of which it is a fee, as long as that has not settled; null for all others.';
