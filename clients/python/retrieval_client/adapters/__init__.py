"""Connects frameworks to a gateway. Each module needs the extra of its name."""
