import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.protobuf.Api;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.TableView;
import org.apache.pulsar.client.api.schema.Field;
import org.apache.pulsar.client.api.schema.GenericObject;
import org.apache.pulsar.client.api.schema.GenericRecord;
import org.apache.pulsar.client.api.schema.GenericRecordBuilder;
import org.apache.pulsar.client.api.schema.GenericSchema;
import org.apache.pulsar.common.schema.KeyValue;
import org.apache.pulsar.common.schema.KeyValueEncodingType;
import org.apache.pulsar.common.schema.SchemaInfo;
import org.apache.pulsar.common.schema.SchemaType;

/** Produces and consumes with schemas on request: a request and its answer are one line of JSON each. */
public class SchemaClient {

    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // the client logs there
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            JsonNode request = JSON.readTree(line);
            try (PulsarClient client = PulsarClient.builder()
                    .serviceUrl(request.get("url").asText())
                    .enableTransaction(request.path("transactions").asBoolean())
                    .operationTimeout(20, TimeUnit.SECONDS).build()) {
                switch (request.get("do").asText()) {
                    case "produce" -> produce(client, request, answer.putArray("versions"));
                    case "consume" -> consume(client, request, answer.putArray("messages"));
                    default -> view(client, request, answer.putObject("view"));
                }
            } catch (Exception error) {
                answer.removeAll();
                answer.put("error", error.toString());
            }
            answers.println(JSON.writeValueAsString(answer));
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static void produce(PulsarClient client, JsonNode request, ArrayNode versions) throws Exception {
        Schema schema = schema(request.get("schema"));
        Schema used = request.path("auto").asBoolean() ? Schema.AUTO_PRODUCE_BYTES() : schema;
        try (Producer producer = client.newProducer(used).topic(request.get("topic").asText()).create()) {
            for (JsonNode each : request.get("values")) {
                Object value = value(schema, each);
                var message = producer.newMessage().value(used == schema ? value : schema.encode(value));
                if (request.has("key")) {
                    message.key(request.get("key").asText());
                }
                message.send();
            }
        }
    }

    static void consume(PulsarClient client, JsonNode request, ArrayNode messages) throws Exception {
        try (Consumer<?> consumer = client.newConsumer(schema(request.get("schema")))
                .topic(request.get("topic").asText())
                .subscriptionName(request.get("subscription").asText())
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                .replicateSubscriptionState(true).subscribe()) {
            for (int count = request.get("count").asInt(); count > 0; count--) {
                Message<?> message = consumer.receive(30, TimeUnit.SECONDS);
                if (message == null) {
                    throw new IllegalStateException(count + " messages are missing");
                }
                ObjectNode found = messages.addObject();
                found.set("value", json(message.getValue()));
                byte[] version = message.getSchemaVersion();
                found.put("version", version == null || version.length == 0 ? -1 : new BigInteger(version).intValue());
                consumer.acknowledge(message);
            }
        }
    }

    static void view(PulsarClient client, JsonNode request, ObjectNode found) throws Exception {
        try (TableView<byte[]> view = client.newTableView().topic(request.get("topic").asText()).create()) {
            view.forEach((key, value) -> found.put(key, new String(value, StandardCharsets.UTF_8)));
        }
    }

    static Schema<?> schema(JsonNode wanted) {
        String type = wanted.get("type").asText();
        return switch (type) {
            case "BYTES" -> Schema.BYTES;
            case "AUTO_CONSUME" -> Schema.AUTO_CONSUME();
            case "PROTOBUF_NATIVE" -> Schema.PROTOBUF_NATIVE(Api.class);
            case "KEY_VALUE" -> Schema.KeyValue(schema(wanted.get("key")), schema(wanted.get("value")),
                    KeyValueEncodingType.valueOf(wanted.get("encoding").asText()));
            default -> Schema.generic(SchemaInfo.builder().name("").type(SchemaType.valueOf(type))
                    .schema(wanted.get("definition").asText().getBytes(StandardCharsets.UTF_8))
                    .properties(Map.of()).build());
        };
    }

    static Object value(Schema<?> schema, JsonNode value) {
        if (schema instanceof GenericSchema<?> generic) {
            GenericRecordBuilder record = generic.newRecordBuilder();
            value.fields().forEachRemaining(each -> record.set(each.getKey(), JSON.convertValue(each.getValue(), Object.class)));
            return record.build();
        }
        if (schema instanceof org.apache.pulsar.client.impl.schema.KeyValueSchemaImpl<?, ?> pair) {
            return new KeyValue<>(value(pair.getKeySchema(), value.get("key")), value(pair.getValueSchema(), value.get("value")));
        }
        if (schema.getSchemaInfo() != null && schema.getSchemaInfo().getType() == SchemaType.PROTOBUF_NATIVE) {
            return Api.newBuilder().setName(value.get("name").asText()).build();
        }
        return value.get("text").asText().getBytes(StandardCharsets.UTF_8);
    }

    static JsonNode json(Object value) {
        if (value instanceof KeyValue<?, ?> pair) {
            ObjectNode found = JSON.createObjectNode();
            found.set("key", json(pair.getKey()));
            found.set("value", json(pair.getValue()));
            return found;
        }
        if (value instanceof GenericObject object && object.getSchemaType() == SchemaType.KEY_VALUE) {
            return json(object.getNativeObject());
        }
        if (value instanceof GenericObject object && object.getSchemaType() == SchemaType.PROTOBUF_NATIVE) {
            return JSON.createObjectNode().put("name", (String) ((GenericRecord) value).getField("name"));
        }
        if (value instanceof GenericRecord record) {
            ObjectNode found = JSON.createObjectNode();
            for (Field field : record.getFields()) {
                Object each = record.getField(field);
                found.set(field.getName(), JSON.valueToTree(each instanceof Number ? each : String.valueOf(each)));
            }
            return found;
        }
        if (value instanceof Api api) {
            return JSON.createObjectNode().put("name", api.getName());
        }
        return JSON.valueToTree(new String((byte[]) value, StandardCharsets.UTF_8));
    }
}
