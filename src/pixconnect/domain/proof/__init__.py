"""The proof of the books: rules, violations, and their possible causes."""
