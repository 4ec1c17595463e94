"""The common parts of all verbs: settings, output, failures and exit statuses."""
