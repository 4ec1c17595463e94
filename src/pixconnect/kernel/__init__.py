"""Everything that moves money: rules, tables, batches, flows and schema. Names no feature, apart from listed exceptions."""
