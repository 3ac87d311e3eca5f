"""Text found again by its words, and the documents themselves: one promise (engine), two engines."""
