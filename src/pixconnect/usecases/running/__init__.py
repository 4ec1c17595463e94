"""The installation itself: health, partitions, metrics."""
