-- A fourth part of what a holder has: what its institution has taken and it lacked. The value can be used once this is committed.

alter type ledger_account add value 'deficit';
