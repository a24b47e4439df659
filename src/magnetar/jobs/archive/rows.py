"""The rows of an archive: the columns of the data source that describe a message, and its partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.types import DateType, StringType, StructField, StructType

from magnetar.spark import columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOPIC: Final = "topic"
"""Partition: the topic, without the number of its partition. The column ``__topic`` has that number."""

DAY: Final = "day"
"""Partition: the day of the publish time, in UTC."""

_LEFT_OUT: Final = (columns.MESSAGE_ID,)
"""Columns that follow from others."""

ORDER: Final = (columns.LEDGER_ID, columns.ENTRY_ID, columns.BATCH_INDEX)
"""The columns by which the rows of a topic or partition have the order of its log."""

MESSAGES: Final = StructType([field for field in columns.all_columns().fields if field.name not in _LEFT_OUT])
"""The columns that are read from the topics, and stored in the files."""

ARCHIVED: Final = StructType([*MESSAGES.fields, StructField(TOPIC, StringType()), StructField(DAY, DateType())])
"""The columns of an archive."""


def with_partitions(messages: DataFrame) -> DataFrame:
    """Return rows of ARCHIVED; in each task, the rows of a file follow each other in the order of the log."""
    day = f.to_date(columns.PUBLISH_TIME)
    topic = f.regexp_replace(columns.TOPIC, "-partition-(0|[1-9][0-9]{0,9})$", "")
    found = messages.withColumn(TOPIC, topic).withColumn(DAY, day)
    return found.sortWithinPartitions(TOPIC, DAY, columns.TOPIC, *ORDER)
