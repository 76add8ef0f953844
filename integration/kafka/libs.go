package kafka

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Versions of Apache Kafka the suite runs against.
const (
	// Current is the newest release; its brokers have transactions v2.
	Current = "4.4.0"
	// BeforeV2 is the last line of brokers from before transactions v2 (partitions join explicitly).
	BeforeV2 = "3.9.2"
)

// ErrUnavailable says that this machine cannot run Kafka: no Java, or no jars and no Maven to fetch them.
var ErrUnavailable = errors.New("real Kafka cannot run here")

//go:embed pom.xml
var pom []byte

// fetchTimeout bounds the first download, about 70 MB.
const fetchTimeout = 10 * time.Minute

// Libs returns the folder that holds the jars of a Kafka version, fetching them with Maven when it is the
// first use. It is $KAFKA_LIBS/<version>, or <user cache>/kafkabridge-kafka/<version>. Safe for concurrent
// use, also by several processes: the folder appears complete or not at all.
func Libs(ctx context.Context, version string) (string, error) {
	base, err := cacheFolder()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, version)
	if complete(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return "", fmt.Errorf("kafka: cache folder: %w", err)
	}
	unlock, err := lockFile(filepath.Join(base, version+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if complete(dir) {
		return dir, nil
	}
	return dir, fetch(ctx, version, dir)
}

func cacheFolder() (string, error) {
	if dir := os.Getenv("KAFKA_LIBS"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("kafka: no cache folder, set KAFKA_LIBS: %w", err)
	}
	return filepath.Join(dir, "kafkabridge-kafka"), nil
}

// complete reports whether dir was filled: fetch renames it into place only then.
func complete(dir string) bool {
	jars, err := filepath.Glob(filepath.Join(dir, "kafka_2.13-*.jar"))
	return err == nil && len(jars) > 0
}

// fetch lets Maven copy the jars to a folder beside dir, which becomes dir only when all are there: a run
// that was cut off in the middle must not look like a Kafka with missing classes.
func fetch(ctx context.Context, version, dir string) error {
	if _, err := exec.LookPath("mvn"); err != nil {
		return fmt.Errorf("%w: no jars in %s and no mvn to fetch them", ErrUnavailable, dir)
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), version+".fetch-")
	if err != nil {
		return fmt.Errorf("kafka: fetch %s: %w", version, err)
	}
	defer os.RemoveAll(work)
	file := filepath.Join(work, "pom.xml")
	if err := os.WriteFile(file, pom, 0o644); err != nil {
		return fmt.Errorf("kafka: fetch %s: %w", version, err)
	}
	libs := filepath.Join(work, "libs")
	args := []string{"-q", "-B", "-f", file, "-Dkafka.version=" + version, "-Dlibs=" + libs}
	if !beforeLog4j2(version) {
		args = append(args, "-Plog4j2")
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "mvn", append(args, "process-resources")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: mvn could not fetch Kafka %s: %w\n%s", ErrUnavailable, version, err, out)
	}
	if err := os.Rename(libs, dir); err != nil {
		return fmt.Errorf("kafka: fetch %s: %w", version, err)
	}
	return nil
}

// beforeLog4j2: Kafka 3 logs through reload4j, Kafka 4 through log4j2.
func beforeLog4j2(version string) bool { return strings.HasPrefix(version, "3.") }

// lockFile takes an exclusive lock that other processes of this user respect, and that dies with us.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("kafka: lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("kafka: lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
