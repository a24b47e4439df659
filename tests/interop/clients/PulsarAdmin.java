import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.pulsar.admin.cli.PulsarAdminTool;
import picocli.CommandLine;

/** Runs commands of pulsar-admin in one virtual machine: a request and its answer are one line of JSON each. */
public class PulsarAdmin {

    static final ObjectMapper JSON = new ObjectMapper();
    static final Map<String, CommandLine> BY_URL = new HashMap<>();
    static final ByteArrayOutputStream OUTPUT = new ByteArrayOutputStream();
    static final ByteArrayOutputStream ERRORS = new ByteArrayOutputStream();

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.setIn(new ByteArrayInputStream(new byte[0])); // nobody answers questions
        capture();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode request = JSON.readTree(line);
            CommandLine tool = tool(request.get("url").asText());
            capture();
            tool.setOut(new PrintWriter(System.out, true));
            tool.setErr(new PrintWriter(System.err, true));
            ObjectNode answer = JSON.createObjectNode();
            answer.put("exit", tool.execute(JSON.convertValue(request.get("arguments"), String[].class)));
            answer.put("output", OUTPUT.toString(StandardCharsets.UTF_8));
            answer.put("errors", ERRORS.toString(StandardCharsets.UTF_8));
            answers.println(JSON.writeValueAsString(answer));
        }
        System.exit(0); // threads of the clients do not end
    }

    /** Empties the buffers, and opens their streams again, because some commands close them. */
    static void capture() {
        OUTPUT.reset();
        ERRORS.reset();
        System.setOut(new PrintStream(OUTPUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERRORS, true, StandardCharsets.UTF_8));
    }

    /** Returns the command line of the tool for a broker, with usage texts whose lines are not wrapped. */
    static CommandLine tool(String url) throws Exception {
        CommandLine tool = BY_URL.get(url);
        if (tool == null) {
            Properties properties = new Properties();
            properties.put("webServiceUrl", url);
            Field commander = PulsarAdminTool.class.getDeclaredField("commander");
            commander.setAccessible(true);
            tool = (CommandLine) commander.get(new PulsarAdminTool(properties));
            tool.setUsageHelpWidth(4000);
            BY_URL.put(url, tool);
        }
        return tool;
    }
}
