-- No Pix goes from one database of an installation to another any more. The index of those under way goes with the column.
alter table settlement drop column crosses;
