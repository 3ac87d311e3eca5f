"""The formulas of effectiveness: nDCG, Recall and the others, their conventions, and what ties could change."""
