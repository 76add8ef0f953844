// Golden writes record batches with Kafka's own classes and says what they hold, and reads batches of ours. With
// kafka-clients 4.4.0 and what it depends on in lib/ (a pom with that one dependency, `mvn dependency:copy-dependencies
// -DoutputDirectory=lib`), Java 17:
//
//   java -cp 'lib/*' Golden.java write golden      writes golden/*.bin and beside each a *.txt
//   java -cp 'lib/*' Golden.java check DIR         compares each DIR/*.bin as Kafka reads it with the *.txt beside it
//
// DIR comes from `BATCH_GOLDEN_OUT=DIR go test -run TestWriteForKafka .` in the package's folder. The *.txt are what
// Kafka's classes say of a file, in the format of dump_test.go.

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.zip.CRC32C;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.ByteBufferOutputStream;

public class Golden {
    static final long T = 1_700_000_000_000L;

    public static void main(String[] args) throws Exception {
        Path dir = Path.of(args[1]);
        if (args[0].equals("write")) { Files.createDirectories(dir); write(dir); } else check(dir);
    }

    static void write(Path dir) throws Exception {
        Map<String, Compression> codecs = new LinkedHashMap<>();
        codecs.put("none", Compression.NONE);
        codecs.put("gzip", Compression.gzip().build());
        codecs.put("snappy", Compression.snappy().build());
        codecs.put("lz4", Compression.lz4().build());
        codecs.put("zstd", Compression.zstd().build());
        codecs.put("gzip9", Compression.gzip().level(9).build());
        codecs.put("lz4-17", Compression.lz4().level(17).build());
        codecs.put("zstd22", Compression.zstd().level(22).build());
        for (var c : codecs.entrySet()) {
            if (!Set.of("gzip9", "lz4-17", "zstd22").contains(c.getKey()))
                save(dir, c.getKey(), odd(c.getValue(), TimestampType.CREATE_TIME, T + 99, false, RecordBatch.NO_TIMESTAMP));
            // beyond the blocks of every codec: 32 KiB of snappy-java, 64 KiB of lz4, 128 KiB of zstd
            if (c.getValue() != Compression.NONE) save(dir, c.getKey() + "-big", big(c.getValue()));
        }
        save(dir, "logappendtime", odd(Compression.lz4().build(), TimestampType.LOG_APPEND_TIME, T + 99, false, RecordBatch.NO_TIMESTAMP));
        save(dir, "transactional", odd(Compression.lz4().build(), TimestampType.CREATE_TIME, T + 99, true, RecordBatch.NO_TIMESTAMP));
        save(dir, "deletehorizon", odd(Compression.NONE, TimestampType.CREATE_TIME, T + 99, false, T + 86_400_000L));
        save(dir, "deletehorizon-lz4", odd(Compression.lz4().build(), TimestampType.CREATE_TIME, T + 99, false, T - 86_400_000L));
        save(dir, "compacted", filter(odd(Compression.lz4().build(), TimestampType.CREATE_TIME, T, false, -1), true));
        save(dir, "emptied", filter(odd(Compression.lz4().build(), TimestampType.CREATE_TIME, T, false, -1), false));
        ByteBuffer sequence = ByteBuffer.allocate(1 << 20);
        sequence.put(one(Compression.NONE, 7)).put(MemoryRecords.withEndTransactionMarker(8, T, 5, 42L, (short) 3,
            new EndTransactionMarker(ControlRecordType.COMMIT, 0)).buffer());
        sequence.put(one(Compression.zstd().build(), 9)).put(MemoryRecords.withEndTransactionMarker(10, T, 5, 42L, (short) 4,
            new EndTransactionMarker(ControlRecordType.ABORT, 0)).buffer()).put(one(Compression.snappy().build(), 11));
        save(dir, "sequence", sequence.flip());
        MemoryRecordsBuilder v1 = MemoryRecords.builder(ByteBuffer.allocate(4096), (byte) 1, Compression.NONE, TimestampType.CREATE_TIME, 33L);
        v1.append(T, "k".getBytes(), "v".getBytes());
        Files.write(dir.resolve("magic1.bin"), bytes(v1.build().buffer()));
    }

    static ByteBuffer odd(Compression c, TimestampType type, long logAppendTime, boolean txn, long horizon) {
        MemoryRecordsBuilder b = new MemoryRecordsBuilder(new ByteBufferOutputStream(ByteBuffer.allocate(1 << 20)), (byte) 2, c, type, 1234L,
            logAppendTime, txn ? 42L : -1L, txn ? (short) 3 : -1, txn ? 17 : -1, txn, false, 5, 1 << 20, horizon);
        byte[] k = "key".getBytes(), v = "value".getBytes(), none = {}, binary = {(byte) 0xff, 0, (byte) 0xc3, 0x28, (byte) 0x80};
        b.append(T, k, v, new Header[]{});
        b.append(T - 5, null, v);
        b.append(T + 7, k, (byte[]) null);
        b.append(T, (byte[]) null, (byte[]) null);
        b.append(T, none, none);
        b.append(-1L, binary, binary, new Header[]{new RecordHeader("a", binary), new RecordHeader("a", (byte[]) null), new RecordHeader("", none), new RecordHeader("a", v)});
        b.append(9_223_372_036_854_775L * 3, k, v); // beyond the year 2262 in milliseconds
        b.append(Long.MAX_VALUE, k, v);
        b.append(0L, k, "x".repeat(63).getBytes());
        b.append(T, k, "x".repeat(64).getBytes()); // the length takes a second byte
        b.append(T, "äöü€😀".getBytes(StandardCharsets.UTF_8), v, new Header[]{new RecordHeader("äöü€😀", v)});
        Header[] many = new Header[1000];
        for (int i = 0; i < many.length; i++) many[i] = new RecordHeader("h" + i % 10, i % 7 == 0 ? null : ("" + i).getBytes());
        b.append(T, k, v, many);
        return b.build().buffer();
    }

    static ByteBuffer big(Compression c) {
        MemoryRecordsBuilder b = MemoryRecords.builder(ByteBuffer.allocate(1 << 20), c, TimestampType.CREATE_TIME, 0L);
        for (int i = 0; i < 150; i++)
            b.append(T + i, ("user-" + i % 7).getBytes(), ("{\"id\":" + i + ",\"text\":\"" + "lorem ipsum dolor ".repeat(80 + i % 5) + "\"}").getBytes());
        return b.build().buffer();
    }

    static ByteBuffer one(Compression c, long offset) {
        MemoryRecordsBuilder b = MemoryRecords.builder(ByteBuffer.allocate(4096), c, TimestampType.CREATE_TIME, offset);
        b.append(T + offset, ("k" + offset).getBytes(), "a value that is repeated, a value that is repeated".getBytes());
        return b.build().buffer();
    }

    // What the log cleaner makes of a batch: every third record kept, or none and the batch kept for its sequence.
    static ByteBuffer filter(ByteBuffer in, boolean some) {
        ByteBuffer out = ByteBuffer.allocate(1 << 20);
        var result = MemoryRecords.readableRecords(in).filterTo(new MemoryRecords.RecordFilter(T, 1000L) {
            protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                return new BatchRetentionResult(BatchRetention.RETAIN_EMPTY, false);
            }
            protected boolean shouldRetainRecord(RecordBatch batch, org.apache.kafka.common.record.internal.Record r) {
                return some && r.offset() % 3 == 0;
            }
        }, out, BufferSupplier.NO_CACHING, 1 << 20);
        return result.outputBuffer().flip();
    }

    static byte[] bytes(ByteBuffer b) { byte[] a = new byte[b.remaining()]; b.duplicate().get(a); return a; }

    static void save(Path dir, String name, ByteBuffer b) throws IOException {
        Files.write(dir.resolve(name + ".bin"), bytes(b));
        Files.writeString(dir.resolve(name + ".txt"), dump(bytes(b)));
    }

    static void check(Path dir) throws Exception {
        int good = 0, bad = 0;
        try (var files = Files.newDirectoryStream(dir, "*.bin")) {
            for (Path f : files) {
                String want = Files.readString(Path.of(f.toString().replace(".bin", ".txt"))), got;
                try { got = dump(Files.readAllBytes(f)); } catch (Exception e) { got = e.toString(); }
                if (got.equals(want)) good++; else { bad++; System.out.println("DIFFERS " + f + "\nwant " + want + "\ngot  " + got); }
            }
        }
        System.out.println(good + " equal, " + bad + " differ");
        System.exit(bad == 0 && good > 0 ? 0 : 1);
    }

    static String dump(byte[] file) {
        StringBuilder s = new StringBuilder();
        for (MutableRecordBatch m : MemoryRecords.readableRecords(ByteBuffer.wrap(file)).batches()) {
            m.ensureValid();
            DefaultRecordBatch b = (DefaultRecordBatch) m;
            s.append(String.format("batch first=%d last=%d size=%d leaderEpoch=%d crc=%08x codec=%s logAppendTime=%b transactional=%b control=%b deleteHorizon=%b maxTimestamp=%d pid=%d epoch=%d seq=%d count=%d\n",
                b.baseOffset(), b.lastOffset(), b.sizeInBytes(), b.partitionLeaderEpoch(), b.checksum(), b.compressionType().name,
                b.timestampType() == TimestampType.LOG_APPEND_TIME, b.isTransactional(), b.isControlBatch(), b.deleteHorizonMs().isPresent(),
                b.maxTimestamp(), b.producerId(), b.producerEpoch(), b.baseSequence(), b.countOrNull()));
            for (var r : b) {
                s.append(String.format("record offset=%d timestamp=%d key=%s value=%s headers=", r.offset(), r.timestamp(), hex(r.key()), hex(r.value())));
                for (Header h : r.headers()) s.append(hex(ByteBuffer.wrap(h.key().getBytes(StandardCharsets.UTF_8)))).append(':').append(hex(h.value() == null ? null : ByteBuffer.wrap(h.value()))).append(',');
                s.append('\n');
            }
        }
        return s.toString();
    }

    static String hex(ByteBuffer b) {
        if (b == null) return "null";
        byte[] a = bytes(b);
        if (a.length <= 64) return "0x" + HexFormat.of().formatHex(a);
        CRC32C crc = new CRC32C();
        crc.update(a);
        return String.format("%d/%08x", a.length, crc.getValue());
    }
}
