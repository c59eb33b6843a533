"""Results as readers see them: standing, as of a moment, open; without Spark."""
