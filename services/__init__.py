"""The processes behind the gateway, and what they share."""
