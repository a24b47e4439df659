"""Tags of ``SingleMessageMetadata``: the field's number, and the form of its value."""

PROPERTIES = 0x0A
KEY = 0x12
PAYLOAD_SIZE = 0x18
COMPACTED_OUT = 0x20
EVENT_TIME = 0x28
KEY_IS_BASE64 = 0x30
ORDERING_KEY = 0x3A
SEQUENCE_ID = 0x40
NULL_VALUE = 0x48
NULL_KEY = 0x50
