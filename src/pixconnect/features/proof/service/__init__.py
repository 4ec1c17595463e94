"""Use cases of proof."""
