-- outside a transaction
-- People read their CPF or CNPJ to whoever supports them; holders are few, and opened seldom.
create index concurrently holder_of_tax_id on holder (tax_id);
