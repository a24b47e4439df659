"""Generates the pages of ``docs/reference`` from the code. All of their facts come from the code."""
