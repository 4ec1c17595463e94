"""The rules of charges with a due date: what they ask for, business days, and the amount of a day."""
