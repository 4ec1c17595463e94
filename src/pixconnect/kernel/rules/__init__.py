"""Pure rules and records of holders, charges, transfers, refunds, orders and events."""
