"""Three clusters and the Spark pipeline, tested with official clients."""
