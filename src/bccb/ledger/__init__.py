"""The ledger: money and journal, durable and append-only."""
