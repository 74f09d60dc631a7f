"""Translation of whole files and corpora, on all cores, in order, and resumable."""
