"""Object stores: what a URL names, how it is reached, and what can be done with the objects there."""
