"""Who asks a service that is measured, and who receives its webhooks."""
