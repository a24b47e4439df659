"""Producers: who may publish, in which order entries are stored and receipted, and which are duplicates."""
