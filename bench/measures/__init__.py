"""What is measured; each file says at its head what it counts."""
