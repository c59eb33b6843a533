"""The log computed again, and compared with what is stored."""
