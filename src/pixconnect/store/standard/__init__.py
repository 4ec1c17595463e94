"""What only the central bank's API keeps and lists."""
