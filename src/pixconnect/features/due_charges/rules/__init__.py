"""Rules and records of charges with a due date."""
