"""SQL of the proof."""
