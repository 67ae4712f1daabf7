"""What runs inside the user's own Python. Imports nothing of the harness."""
