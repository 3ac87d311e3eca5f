"""Tests that start real servers (make test-integration)."""
