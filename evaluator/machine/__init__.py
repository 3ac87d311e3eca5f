"""What the machine did meanwhile: its conditions, the processes measured, their cost, and the lock on measurements."""
