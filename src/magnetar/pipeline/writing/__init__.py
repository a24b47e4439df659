"""The writer of a task: a producer for each topic and source at the target."""
