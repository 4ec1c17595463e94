"""SQL of proof."""
