"""The same job through other engines: `make bench-peers`."""
