"""The page at `/`: a query through two pipelines side by side, rendered by the gateway, without a network beyond it."""
