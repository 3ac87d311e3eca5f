"""Compares two gateways that take turns within one run."""
