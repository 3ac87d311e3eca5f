"""Says for every relevant document that is missing from the top which stage of the pipeline lost it."""
