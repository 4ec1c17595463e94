"""A statement as an institution writes it: the forms of its files, and what each says in the same records."""
