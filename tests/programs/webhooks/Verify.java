import java.math.*;
import java.nio.charset.*;
import java.nio.file.*;
import java.security.*;
import java.security.spec.*;
import java.time.*;
import java.util.*;
import java.util.regex.*;
import javax.crypto.*;
import javax.crypto.spec.*;

class Verify {
// EXAMPLES
    public static void main(String[] arguments) throws Exception {
        byte[] body = Files.readAllBytes(Path.of("body"));
        Map<String, PublicKey> keys = new HashMap<>();
        for (String line : Files.readAllLines(Path.of("points"))) {
            String[] words = line.split("\t");
            keys.put(words[0], readKey(words[1], words[2]));
        }
        for (String line : Files.readAllLines(Path.of("cases"))) {
            String[] words = line.split("\t");
            Map<String, String> headers = new HashMap<>();
            for (int i = 2; i < words.length; i++) {
                String[] parts = words[i].split("=", 2);
                headers.put(parts[0], parts[1]);
            }
            System.out.println(switch (words[0]) {
                case "verify" -> verify(words[1], headers, body, 300);
                case "verifyJws" -> verifyJws(keys, words[1], headers, body);
                default -> verify(words[1], headers, body, 1_000_000_000);
            });
        }
    }
}
