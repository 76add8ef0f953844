package main

import (
	"context"
	"regexp"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// cmdTopics fails unless N topics exist, all of which match; without an expression none may exist.
func cmdTopics(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1 || len(args) == 3, "topics ADDR [REGEXP N]")
	expression, want := "", 0
	if len(args) == 3 {
		var err error
		expression = args[1]
		want, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cl := client(ts, args[0], scriptCredentials(ts)...)
	defer cl.Close()
	topics, err := kadm.NewClient(cl).ListTopics(ctx)
	ts.Check(err)
	for name := range topics {
		if ok, err := regexp.MatchString("^(?:"+expression+")$", name); err != nil || !ok {
			ts.Fatalf("topic %s: %v", name, err)
		}
	}
	if len(topics) != want {
		ts.Fatalf("%d topics, want %d", len(topics), want)
	}
}

// scriptCredentials are jane's, where the script has a password.
func scriptCredentials(ts *testscript.TestScript) []kgo.Opt {
	password := ts.Getenv("PASSWORD")
	if password == "" {
		return nil
	}
	return []kgo.Opt{kgo.SASL(plain.Auth{User: "jane", Pass: password}.AsMechanism())}
}
