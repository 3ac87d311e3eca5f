"""Asks tasks of mteb of any pipeline of a gateway. Runs in an environment of its own: mteb brings torch."""
