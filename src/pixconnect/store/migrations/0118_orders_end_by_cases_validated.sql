-- outside a transaction
alter table kept_case validate constraint kept_case_kind_check;
alter table kept_case validate constraint kept_case_ended_as_check;
alter table kept_case validate constraint closing_a_case_says_who_and_why;
alter table kept_case validate constraint only_days_and_lines_lie_at_an_account;
alter table rail_step validate constraint rail_step_outcome_check;
