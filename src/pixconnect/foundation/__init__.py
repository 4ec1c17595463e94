"""Code that every floor above the domain may import."""
