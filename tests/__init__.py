"""Tests: unit, contract, integration, end to end; each file is named after what it tests."""
