"""A web page: what a pipeline does now, its windows, how late events are, its ledger, and why a number is what it is.
It reads the store's tables without Spark and changes nothing."""
