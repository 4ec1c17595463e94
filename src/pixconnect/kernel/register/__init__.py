"""Rules with dates: the arrangement's, and how long data is kept."""
