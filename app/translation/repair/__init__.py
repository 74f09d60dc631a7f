"""What a translation has to hold is put back where the model lost it: links, marks, numbers, glossary terms."""
