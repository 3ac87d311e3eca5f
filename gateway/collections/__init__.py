"""Collections over all backends: begun, filled, published, rolled back and removed."""
