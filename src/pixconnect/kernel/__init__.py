"""The money: rules, tables, batches, flows and the schema. It should name no feature."""
