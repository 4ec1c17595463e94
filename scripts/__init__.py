"""Programs for who develops: the environment, and the pages that are written by programs."""
