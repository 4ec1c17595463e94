"""Parts of the worker of webhooks."""
