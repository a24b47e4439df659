"""Settings of a broker by subject. Each class is a section of the reference page; its docstring is the heading."""
