import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.Utils;

/**
 * Reads topics with Kafka's own consumer from their beginning to the ends they have now, and prints every record
 * on a line of its own: R topic partition offset timestamp key value headers hash, then one line per partition:
 * E topic partition begin end. Bytes are "x" and hex, null is "-"; headers are key=value joined by commas, or ".";
 * hash is the partitioner's positive murmur2 of the key, or -1.
 *
 * Arguments: bootstrap isolation.level topic...
 */
public class Oracle {
    private static final byte[] HEX = "0123456789abcdef".getBytes(StandardCharsets.US_ASCII);
    private static final Duration POLL = Duration.ofMillis(200);
    private static final long SILENCE_LIMIT_MS = 60_000;

    /** ByteArrayOutputStream without its lock, and with hex. */
    private static final class Line extends ByteArrayOutputStream {
        Line() { super(1 << 20); }
        void text(String s) { byte[] b = s.getBytes(StandardCharsets.UTF_8); write(b, 0, b.length); }
        void bytes(byte[] b) {
            if (b == null) { write('-'); return; }
            write('x');
            byte[] hex = new byte[2 * b.length];
            for (int i = 0; i < b.length; i++) {
                hex[2 * i] = HEX[(b[i] >> 4) & 15];
                hex[2 * i + 1] = HEX[b[i] & 15];
            }
            write(hex, 0, hex.length);
        }
    }

    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("isolation.level", args[1]);
        p.put("key.deserializer", ByteArrayDeserializer.class.getName());
        p.put("value.deserializer", ByteArrayDeserializer.class.getName());
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "none");
        p.put("max.poll.records", "5000");
        p.put("max.partition.fetch.bytes", "8388608");
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(p)) {
            read(consumer, Arrays.asList(args).subList(2, args.length));
        }
    }

    private static void read(KafkaConsumer<byte[], byte[]> consumer, List<String> topics) throws Exception {
        List<TopicPartition> all = new ArrayList<>();
        for (String topic : topics) {
            for (PartitionInfo i : consumer.partitionsFor(topic)) all.add(new TopicPartition(topic, i.partition()));
        }
        consumer.assign(all);
        Map<TopicPartition, Long> begin = consumer.beginningOffsets(all);
        Map<TopicPartition, Long> end = consumer.endOffsets(all); // read_committed: the last stable offset
        for (TopicPartition tp : all) consumer.seek(tp, begin.get(tp));
        Map<TopicPartition, Long> open = new HashMap<>(end);
        Line line = new Line();
        long lastProgress = System.currentTimeMillis();
        while (true) {
            open.entrySet().removeIf(e -> consumer.position(e.getKey()) >= e.getValue());
            if (open.isEmpty()) break;
            ConsumerRecords<byte[], byte[]> records = consumer.poll(POLL);
            for (ConsumerRecord<byte[], byte[]> r : records) {
                // What was appended after the ends were asked for is the next reader's.
                if (r.offset() < end.get(new TopicPartition(r.topic(), r.partition()))) print(line, r);
                if (line.size() > 1 << 19) flush(line);
            }
            if (!records.isEmpty()) lastProgress = System.currentTimeMillis();
            if (System.currentTimeMillis() - lastProgress > SILENCE_LIMIT_MS)
                throw new IllegalStateException("no records for a minute, still short of " + open);
        }
        for (TopicPartition tp : all)
            line.text("E " + tp.topic() + " " + tp.partition() + " " + begin.get(tp) + " " + end.get(tp) + "\n");
        flush(line);
    }

    private static void print(Line line, ConsumerRecord<byte[], byte[]> r) {
        line.text("R " + r.topic() + " " + r.partition() + " " + r.offset() + " " + r.timestamp() + " ");
        line.bytes(r.key());
        line.write(' ');
        line.bytes(r.value());
        line.write(' ');
        boolean first = true;
        for (Header h : r.headers()) {
            if (!first) line.write(',');
            first = false;
            line.bytes(h.key().getBytes(StandardCharsets.UTF_8));
            line.write('=');
            line.bytes(h.value());
        }
        if (first) line.write('.');
        line.text(" " + (r.key() == null ? -1 : Utils.toPositive(Utils.murmur2(r.key()))) + "\n");
    }

    private static void flush(Line line) throws Exception {
        OutputStream out = System.out;
        line.writeTo(out);
        out.flush();
        line.reset();
        if (System.out.checkError()) throw new IllegalStateException("nobody reads the oracle's output");
    }
}
