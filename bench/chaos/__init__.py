"""Three replicas on one PostgreSQL, what is done to them, and a checker that trusts nobody."""
