"""What the machine did meanwhile: its conditions, the processes measured, and their cost."""
