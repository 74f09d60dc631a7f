"""Files of people's programs: what of them is text, and the same file around its translation."""
