"""Verbs of operators, which call flows on the database and leave a row in the audit."""
