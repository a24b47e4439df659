"""The archive of topics as Parquet, and its restoration."""
