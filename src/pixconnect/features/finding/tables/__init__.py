"""SQL of search, timelines and lists."""
