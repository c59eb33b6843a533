"""The log computed again, and held against what is stored."""
