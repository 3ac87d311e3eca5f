"""Reads collections in BEIR layout, checks them, and counts every correction. Sends nothing to the gateway."""
