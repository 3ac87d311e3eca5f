"""Loads BEIR collections through the gateway, fires their queries at it, and turns the answers into figures."""
