"""Owns what every process needs: errors, deadlines, limits, probes, logs, telemetry, serving. Knows no service."""
