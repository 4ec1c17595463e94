-- outside a transaction
alter table rail_step validate constraint an_owner_has_its_form;
