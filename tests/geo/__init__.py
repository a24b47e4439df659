"""Three clusters and the Spark pipeline, seen by official clients."""
