"""The verbs that install, start and look after the service."""
