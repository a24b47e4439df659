"""Events of Apache Pulsar, as its client encodes them.

Encoded by ``Schema.AVRO(MetadataEvent.class)`` of Apache Pulsar 4.0.7: the creation of the tenant ``acme``, and the
deletion of the namespace ``acme/orders``, both by the cluster ``apache``.
"""

PULSAR_EVENTS = [
    bytes.fromhex(
        "0201d08ea4d6c268020002282f61646d696e2f706f6c69636965732f61636d65020c617061636865020002627b2261646d696e526f6c657322"
        "3a5b2272225d2c22616c6c6f776564436c757374657273223a5b22617061636865225d7d00"
    ),
    bytes.fromhex(
        "0200d08ea4d6c268020002362f61646d696e2f706f6c69636965732f61636d652f6f7264657273020c61706163686502060000"
    ),
]
