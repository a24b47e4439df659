"""The reading half of a task: the topics of all sources, their links, and what is handed over next."""
