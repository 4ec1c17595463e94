"""Use cases of search, timelines and lists."""
