"""The ledger in PostgreSQL, which several processes serve."""
