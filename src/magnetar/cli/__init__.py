"""The command line: one module per noun, data on stdout, words on stderr."""
