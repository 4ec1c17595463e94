"""What proves the books: rules, what breaks them, and what it may mean."""
