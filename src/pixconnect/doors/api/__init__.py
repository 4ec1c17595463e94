"""The API: requests, answers, callers, routes; features add operations."""
