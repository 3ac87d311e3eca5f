"""Serves late interaction: encodes each token as a vector, and finds the documents of the greatest MaxSim."""
