"""What proves the books: each rule as SQL, and what a run of it has found."""
