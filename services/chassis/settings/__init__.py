"""Reads what people configure: settings, secrets, addresses, YAML, certificates to trust."""
