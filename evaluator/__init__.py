"""Loads BEIR collections through the gateway, sends their queries, and measures quality and latency of the answers."""
