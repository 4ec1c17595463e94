"""Development programs: the environment, checks, releases, generated pages."""
