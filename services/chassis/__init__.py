"""Holds errors, deadlines, limits, probes, logs, telemetry and the server for every process. Knows no service."""
