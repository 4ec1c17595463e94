-- outside a transaction
alter table rail_step validate constraint a_code_has_its_form;
