"""Windows of a range computed again, and published as a batch of their own."""
