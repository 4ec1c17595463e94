"""Operators' verbs, which act for the installation on the database; the audit records each act."""
