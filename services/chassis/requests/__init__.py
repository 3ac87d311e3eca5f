"""Handles one request: its route's handling, deadline, body, errors, caching and telemetry."""
