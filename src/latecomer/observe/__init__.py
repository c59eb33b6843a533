"""What a run shows of itself while it runs: metrics, health, and the signals that somebody should know of."""
