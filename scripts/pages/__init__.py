"""Generators of the pages of ``docs/reference``; ``make docs`` writes them all."""
