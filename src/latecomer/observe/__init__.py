"""What a pipeline shows of itself: metrics, alerts, advice on its settings, forecasts and the dashboard."""
