"""What people leave with the server: glossaries, suggestions."""
