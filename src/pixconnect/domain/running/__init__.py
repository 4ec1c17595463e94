"""Records about the installation's own servers."""
