"""What all tables are written and read with: parts, columns, ids, the clock, lists."""
