"""Restores links, marks, numbers and glossary terms that a translation lost."""
