"""The same queries at several deadlines: what arrives in time, and what it is worth."""
