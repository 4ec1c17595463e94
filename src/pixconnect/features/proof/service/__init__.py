"""Use cases of the proof."""
