"""The rules of charges with a due date: their terms, business days, and the amount of a day."""
