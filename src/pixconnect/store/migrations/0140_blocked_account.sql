-- A seventh part of what a holder has: what its institution has blocked. The value can be used once this is committed.

alter type ledger_account add value 'blocked';
