"""A range of windows computed again, published as a batch of its own."""
