"""What people leave with the server: glossaries, suggestions.

files.py       JSON files that are whole or not there, and one writer at a time
glossaries.py  glossaries of each caller
terms.py       a glossary's entries as tab- or comma-separated lines
"""
