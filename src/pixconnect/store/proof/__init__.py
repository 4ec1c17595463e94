"""The proof of the books: each rule as SQL, and the findings of runs."""
