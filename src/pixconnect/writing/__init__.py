"""How decisions are written: waiting requests together, in one transaction, by one statement. No use case is here."""
