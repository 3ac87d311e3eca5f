"""Figures of a pipeline in one kind of traffic, from its requests. Sends nothing."""
