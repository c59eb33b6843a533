"""Which schemas were seen in a log or in topics, and which of them no registry knows."""
