-- An id under which nothing had come when its window was over: asked about then, it is closed, so that nothing that is still on
-- its way can be taken any more.

alter table settlement add column is_closed boolean not null default false;

comment on column settlement.is_closed is 'no order: nothing had come under this id when its window was over, and nothing is taken';
