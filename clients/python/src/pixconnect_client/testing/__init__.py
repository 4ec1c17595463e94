"""A service for tests: one for the whole run, a holder for each test. ``pytest_plugin.py`` makes fixtures of it."""
