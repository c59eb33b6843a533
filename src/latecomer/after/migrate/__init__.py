"""A migration of a schema under way: drift in the log, and its steps in the registry."""
