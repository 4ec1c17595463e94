"""What is written of the results: pages of ``docs/reference``."""
