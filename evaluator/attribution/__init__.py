"""Finds the stage of a pipeline that lost each relevant document missing from the top."""
