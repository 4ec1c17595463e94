"""What every rule stands on: errors, money in cents, clock and chance, ids, lists."""
