"""What online experiments leave for their verdict."""
