package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDeployedMetricsExist: alerts and dashboard ask for metrics that a running bridge has (TestContractMetrics holds the list against one). An alert for
// a metric that is misspelt never rings.
func TestDeployedMetricsExist(t *testing.T) {
	expression := regexp.MustCompile(`(?m)^        expr: (?:\|\n((?:          .*\n)+)|(.*)$)|"expr": "((?:[^"\\]|\\.)*)"`)
	value, name := regexp.MustCompile(`\\?"[^"]*"`), regexp.MustCompile(`\b(?:bridge|process)_[a-z_]+\b`)
	for file, least := range map[string]int{"prometheus/alerts.yaml": 13, "grafana/bridge.json": 25} {
		text, err := os.ReadFile(filepath.Join("..", "..", "deploy", file))
		if err != nil {
			t.Fatal(err)
		}
		found := expression.FindAllStringSubmatch(string(text), -1)
		if len(found) < least {
			t.Errorf("%s: %d expressions, want at least %d", file, len(found), least)
		}
		for _, m := range found {
			for _, metric := range name.FindAllString(value.ReplaceAllString(strings.Join(m[1:], ""), ""), -1) {
				family := metric
				for _, suffix := range []string{"_bucket", "_sum", "_count"} {
					family = strings.TrimSuffix(family, suffix)
				}
				if _, known := contractFamilies[family]; !known && !strings.HasPrefix(family, "process_") {
					t.Errorf("%s: a bridge has no %s", file, metric)
				}
			}
		}
	}
}
