"""Rules and records of proof."""
