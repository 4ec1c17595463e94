"""What we remember of accounts at institutions."""
