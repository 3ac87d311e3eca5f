"""Fetches, verifies, builds and prepares the models that services open. No service imports it."""
