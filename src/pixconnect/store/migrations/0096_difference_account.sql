-- A sixth part of what a holder has: what was adjusted, and is neither there nor here. The value can be used once this is committed.

alter type ledger_account add value 'difference';
