"""The service: decisions over HTTP, from a ledger that cannot overspend."""
