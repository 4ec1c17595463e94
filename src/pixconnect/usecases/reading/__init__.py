"""What people look up: search, lists, figures, the timeline of one thing, and who asked for it."""
