"""What every process needs to be a good citizen: errors, deadlines, limits, probes, logs, telemetry, serving."""
