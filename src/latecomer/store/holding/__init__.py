"""Who may write to a store: one engine at a time, by a lock or a lease, and fences against one that lost it."""
