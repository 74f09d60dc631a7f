// The JDK's HttpClient: java Posts.java BASE FORM JSON PROMPT STREAM COMPLETION
// Writes a line for each request: client, request, status, and the body in Base64, with tabs between them.
import java.io.ByteArrayInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.function.Function;
import java.util.stream.Collectors;

class Posts {
    record Post(String name, String path, String type, String body) {}

    static final String FILE =
        "--b\r\nContent-Disposition: form-data; name=\"source\"\r\n\r\nde\r\n"
            + "--b\r\nContent-Disposition: form-data; name=\"target\"\r\n\r\nen\r\n"
            + "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n"
            + "Content-Type: text/plain\r\n\r\nhallo welt\r\n--b--\r\n";

    public static void main(String[] given) throws Exception {
        String json = "application/json";
        List<Post> posts = List.of(
            new Post("form", "/translate", "application/x-www-form-urlencoded", given[1]),
            new Post("json", "/translate", json, given[2]),
            new Post("generate", "/generate", json, given[3]),
            new Post("stream", "/generate", json, given[4]),
            new Post("completion", "/v1/completions", json, given[5]),
            new Post("file", "/translate_file", "multipart/form-data; boundary=b", FILE));
        Function<String, BodyPublisher> whole = BodyPublishers::ofString;
        Function<String, BodyPublisher> unknown = body -> BodyPublishers.ofInputStream(
            () -> new ByteArrayInputStream(body.getBytes(StandardCharsets.UTF_8)));
        HttpClient asItComes = HttpClient.newHttpClient();
        HttpClient plain = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        for (Post post : posts) {
            show("sync", post, asItComes.send(request(given[0], post, whole, false), BodyHandlers.ofLines()));
            show("sync, unknown length", post,
                asItComes.send(request(given[0], post, unknown, false), BodyHandlers.ofLines()));
            show("async", post,
                asItComes.sendAsync(request(given[0], post, whole, false), BodyHandlers.ofLines()).get());
            show("async, unknown length", post,
                asItComes.sendAsync(request(given[0], post, unknown, false), BodyHandlers.ofLines()).get());
            show("new connection", post,
                HttpClient.newHttpClient().send(request(given[0], post, whole, false), BodyHandlers.ofLines()));
            show("new connection, unknown length", post,
                HttpClient.newHttpClient().send(request(given[0], post, unknown, false), BodyHandlers.ofLines()));
            show("100-continue", post, plain.send(request(given[0], post, whole, true), BodyHandlers.ofLines()));
            show("HTTP/1.1", post, plain.send(request(given[0], post, whole, false), BodyHandlers.ofLines()));
            show("HTTP/1.1, unknown length", post,
                plain.send(request(given[0], post, unknown, false), BodyHandlers.ofLines()));
        }
    }

    static HttpRequest request(String base, Post post, Function<String, BodyPublisher> publisher, boolean expect) {
        return HttpRequest.newBuilder(URI.create(base + post.path())).header("Content-Type", post.type())
            .expectContinue(expect).POST(publisher.apply(post.body())).build();
    }

    static void show(String client, Post post, HttpResponse<java.util.stream.Stream<String>> answer) {
        byte[] body = answer.body().collect(Collectors.joining("\n")).getBytes(StandardCharsets.UTF_8);
        System.out.println(String.join("\t", client, post.name(), Integer.toString(answer.statusCode()),
            Base64.getEncoder().encodeToString(body)));
    }
}
