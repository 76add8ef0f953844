package oracle

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// compiled returns a folder with the classes of Oracle.java. They are kept beside the jars: to compile them takes longer
// than to read what most tests write. libs is the folder of the jars.
func compiled(ctx context.Context, java, libs string) (string, error) {
	folder := filepath.Join(libs, "..", fmt.Sprintf("oracle-%.8x", sha256.Sum256(program)))
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	tmp, err := os.MkdirTemp(filepath.Dir(folder), "oracle-")
	if err != nil {
		return "", fmt.Errorf("oracle: %w", err)
	}
	defer os.RemoveAll(tmp)
	source, fresh := filepath.Join(tmp, "Oracle.java"), filepath.Join(tmp, "classes")
	if err := os.WriteFile(source, program, 0o644); err != nil {
		return "", fmt.Errorf("oracle: %w", err)
	}
	jars, err := filepath.Glob(filepath.Join(libs, "*.jar")) // the compiler's main class expands no "*"
	if err != nil {
		return "", fmt.Errorf("oracle: %w", err)
	}
	out, err := exec.CommandContext(ctx, java, "-m", "jdk.compiler/com.sun.tools.javac.Main",
		"-cp", strings.Join(jars, string(filepath.ListSeparator)), "-d", fresh, source).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("oracle: compile Oracle.java: %w\n%s", err, out)
	}
	// Another process may have been faster: the same classes.
	if err := os.Rename(fresh, folder); err != nil && !os.IsExist(err) {
		return "", fmt.Errorf("oracle: %w", err)
	}
	return folder, nil
}
