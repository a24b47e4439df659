import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionType;

/**
 * Publishes and consumes until it is asked to "stop". A request and its answer are one line of JSON each.
 *
 * Arguments: the service URL, the pause after a message of each key in milliseconds, and topics. Each gets messages with
 * five keys, numbered from 1 for each key.
 */
public class Traffic {
    static final ObjectMapper JSON = new ObjectMapper();
    static final int KEYS = 5;
    static final Map<String, SubscriptionType> KINDS =
            Map.of("billing", SubscriptionType.Key_Shared, "audit", SubscriptionType.Shared);

    static final Map<String, Map<String, Integer>> received = new ConcurrentHashMap<>();
    static final ConcurrentLinkedQueue<String> outOfOrder = new ConcurrentLinkedQueue<>();
    static final ConcurrentLinkedQueue<String> failures = new ConcurrentLinkedQueue<>();
    static final AtomicInteger published = new AtomicInteger();
    static volatile boolean isStopping = false;
    static volatile boolean isOver = false;

    public static void main(String[] arguments) {
        try {
            run(arguments);
            System.exit(0);
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1); // the client's threads would go on
        }
    }

    static void run(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // the client logs there
        PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0]).build();
        int pauseMs = Integer.parseInt(arguments[1]);
        KINDS.keySet().forEach(subscription -> received.put(subscription, new ConcurrentHashMap<>()));
        List<Thread> publishers = new ArrayList<>(), consumers = new ArrayList<>();
        for (String topic : Arrays.asList(arguments).subList(2, arguments.length)) {
            for (String subscription : KINDS.keySet()) {
                Consumer<byte[]> consumer = client.newConsumer(Schema.BYTES).topic(topic)
                        .subscriptionName(subscription).subscriptionType(KINDS.get(subscription)).subscribe();
                consumers.add(new Thread(() -> guard(() -> consume(consumer, subscription))));
            }
            Producer<byte[]> producer = client.newProducer(Schema.BYTES).topic(topic).blockIfQueueFull(true).create();
            publishers.add(new Thread(() -> guard(() -> publish(producer, topic, pauseMs))));
        }
        consumers.forEach(Thread::start);
        publishers.forEach(Thread::start);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            if (JSON.readTree(line).get("do").asText().equals("stop")) {
                stop(publishers, consumers);
            }
            answers.println(JSON.writeValueAsString(state()));
        }
    }

    static void publish(Producer<byte[]> producer, String topic, int pauseMs) throws Exception {
        for (int number = 1; !isStopping; number++) {
            for (int key = 0; key < KEYS; key++) {
                producer.newMessage().key("" + key).value((topic + " " + key + " " + number).getBytes()).send();
                published.incrementAndGet();
            }
            Thread.sleep(pauseMs);
        }
    }

    static void consume(Consumer<byte[]> consumer, String subscription) throws Exception {
        Map<String, Integer> newest = new HashMap<>();
        Map<String, Integer> counts = received.get(subscription);
        while (!isOver) {
            Message<byte[]> message = consumer.receive(200, TimeUnit.MILLISECONDS);
            if (message == null) {
                continue;
            }
            String text = new String(message.getValue());
            String[] parts = text.split(" ");
            int number = Integer.parseInt(parts[2]), before = newest.getOrDefault(parts[1], 0);
            if (!counts.containsKey(text) && number != before + 1) {
                outOfOrder.add(subscription + ": " + text + " after " + before);
            }
            newest.put(parts[1], Math.max(number, before));
            counts.merge(text, 1, Integer::sum);
            consumer.acknowledge(message);
        }
    }

    /** Waits up to a minute until everything is delivered, then a second for repetitions. */
    static void stop(List<Thread> publishers, List<Thread> consumers) throws Exception {
        isStopping = true;
        for (Thread each : publishers) {
            each.join();
        }
        for (int tries = 0; tries < 600 && received.values().stream().anyMatch(each -> each.size() < published.get()); tries++) {
            Thread.sleep(100);
        }
        Thread.sleep(1000);
        isOver = true;
        for (Thread each : consumers) {
            each.join();
        }
    }

    static ObjectNode state() {
        ObjectNode found = JSON.createObjectNode().put("published", published.get());
        found.set("outOfOrder", JSON.valueToTree(outOfOrder));
        found.set("failures", JSON.valueToTree(failures));
        received.forEach((subscription, counts) -> {
            int all = counts.values().stream().mapToInt(Integer::intValue).sum();
            found.withObject("/received/" + subscription).put("messages", counts.size()).put("repeated", all - counts.size());
        });
        return found;
    }

    interface Work {
        void run() throws Exception;
    }

    static void guard(Work work) {
        try {
            work.run();
        } catch (Throwable error) {
            failures.add(error.toString());
        }
    }
}
