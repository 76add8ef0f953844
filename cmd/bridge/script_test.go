package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"kafkabridge/configs"
)

// TestMain makes this test binary the command bridge, too: the scripts run the real main as a process of its own, with
// real signals and exit codes.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"bridge": main})
}

// TestScripts runs the scripts. What they can use besides testscript's own commands:
//
//	kfake NAME [user:password] [topic:partitions ...] [old]   starts a broker (old: like Kafka 3.5); its address is $NAME; the user poor may only see the topic orders, tester has what selftest needs
//	hang ADDR ID TOPIC VALUE  leaves a transaction open on that id, with one record in partition 0
//	disk DIR                  makes DIR a small file system of its own (needs root); fill DIR takes all room that is left there, free DIR gives it back
//	stopkfake NAME            stops it
//	freeze NAME               makes it fall silent for ever; its connections stay open
//	silent NAME               listens and never answers; its address is $NAME
//	accepted NAME             waits until somebody has connected to that silent one
//	refused NAME              an address at which nobody listens
//	produce ADDR TOPIC N      appends N records to the topic, spread over its partitions
//	same ADDR FROM TO         fails unless a read_committed reader finds the same in both, in order, in every partition
//	topics ADDR [REGEXP N]    fails unless N topics exist, whose names match; without more unless none does
//	count ADDR TOPIC N        fails unless a read_committed reader finds that many records
//	append ADDR TOPIC V ...   appends the records V to partition 0, one after the other
//	initpid ADDR ID           sends a blind InitProducerID: what is open on the id is aborted
//	deletetopic ADDR TOPIC    deletes it
//	configure ADDR TOPIC K=V  changes settings of the topic
//	code N COMMAND ...        fails unless the command ends with exit code N within two minutes; stdout and stderr as with exec
//	start NAME COMMAND ...    starts a process; its output is in the files NAME.out and NAME.err
//	signal NAME SIGNAL        TERM, INT, KILL, HUP
//	supervisor PATH           listens as systemd does, at PATH or @ABSTRACT; what it hears is in the file supervisor, a message a line
//	heard REGEXP              waits until that file matches
//	certificate NAME          makes NAME.pem and NAME.key for localhost, and ca.pem, whose authority signs them, and client.pem and .key
//	ask CODE METHOD URL REGEXP [HEADER: VALUE | cert:NAME ...]   like http, with a method, headers and a client certificate; trusts ca.pem
//	ended NAME N DURATION     fails unless the process ends with exit code N within the duration
//	logged NAME REGEXP        waits until NAME.err matches
//	printed NAME REGEXP       waits until NAME.out matches
//	http CODE URL REGEXP      waits until the URL answers with that status and a body that matches; stdout is the body
//	lines N REGEXP            fails unless stderr has that many lines that match
//	envsubst FILE             puts the script's variables in the place of $NAME (capitals) in the file
//	samples DIR               writes configs.Samples
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Values[processesKey{}], e.Values[silencesKey{}], e.Values[clustersKey{}] = processes{}, silences{}, clusters{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"kfake": cmdKfake, "stopkfake": cmdStopKfake, "freeze": cmdFreeze, "silent": cmdSilent, "accepted": cmdAccepted, "refused": cmdRefused, "produce": cmdProduce, "same": cmdSame, "count": cmdCount,
			"append": cmdAppend, "initpid": cmdInitPID, "deletetopic": cmdDeleteTopic, "configure": cmdConfigure,
			"hang": cmdHang, "disk": cmdDisk, "fill": cmdFill, "free": cmdFree,
			"code": cmdCode, "start": cmdStart, "signal": cmdSignal, "ended": cmdEnded, "logged": cmdLogged, "printed": cmdPrinted,
			"http": cmdHTTP, "ask": cmdAsk, "certificate": cmdCertificate, "supervisor": cmdSupervisor, "heard": cmdHeard, "topics": cmdTopics, "lines": cmdLines, "samples": cmdSamples, "envsubst": cmdEnvsubst,
		},
		Condition: func(cond string) (bool, error) {
			return cond == "root" && os.Getuid() == 0, nil
		},
	})
}

func cmdSamples(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "samples DIR")
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	ts.Check(fs.WalkDir(configs.Samples, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := fs.ReadFile(configs.Samples, path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, path), b, 0o600)
	}))
}

func cmdEnvsubst(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "envsubst FILE")
	name := regexp.MustCompile(`\$[A-Z]{2,}`) // other dollars are the file's own
	text := name.ReplaceAllStringFunc(ts.ReadFile(args[0]), func(v string) string { return ts.Getenv(v[1:]) })
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

func usage(ts *testscript.TestScript, neg, ok bool, text string) {
	if neg || !ok {
		ts.Fatalf("usage: %s", text)
	}
}
