"""What the installation knows of its own servers."""
