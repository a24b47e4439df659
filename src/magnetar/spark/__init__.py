"""The data source ``magnetar`` for Apache Spark; it needs no broker of Magnetar and no pipeline."""

from magnetar.spark.source import MagnetarDataSource

__all__ = ["MagnetarDataSource"]
