"""What callers leave on the server: glossaries, suggestions, translated files."""
