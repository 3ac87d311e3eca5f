"""Drives the gateway as production traffic does, and measures latency and quality of the same answers."""
