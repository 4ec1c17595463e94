"""The tools of all tables: parts, columns, ids, the clock, lists."""
