"""A service for tests: one per test run, and a holder per test. ``pytest_plugin.py`` provides the fixtures."""
