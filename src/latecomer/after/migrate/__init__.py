"""A schema migration: drift in the log, its steps in the registry, and the tables of sinks."""
