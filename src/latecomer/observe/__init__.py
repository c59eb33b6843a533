"""What a pipeline shows: metrics, alerts, advice on its settings, forecasts and the dashboard."""
