"""Calls of the backends: which replica, over which connection, how often, and what a failure means."""
