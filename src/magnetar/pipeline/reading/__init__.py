"""The reader of a task: the topics of all sources, their links, and the order of entries to the writer."""
