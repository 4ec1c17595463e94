"""What all verbs share: settings, output, failures and exit statuses."""
