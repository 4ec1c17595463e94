"""How what was decided is written: requests that wait together, in one transaction, by one statement. No use case is here."""
