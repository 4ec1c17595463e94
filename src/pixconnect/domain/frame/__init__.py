"""The basis of all rules: errors, money in cents, clock and chance, ids, lists."""
