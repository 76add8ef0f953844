package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mattn/go-isatty"

	"kafkabridge/semantics"
)

// errDeclined is the end of a command whose question was not answered with yes.
var errDeclined = &semantics.Error{Class: semantics.Fatal, Exit: semantics.ExitGaveUp, Op: "confirm", Err: errors.New("not confirmed; nothing was changed")}

// confirm asks on the terminal. Without one nobody can answer, and --yes must be said.
func confirm(env environment, question string, yes bool) error {
	if yes {
		return nil
	}
	if !isatty.IsTerminal(os.Stdin.Fd()) {
		return &usageError{errors.New("nobody can be asked here: say --yes")}
	}
	_, _ = fmt.Fprint(env.stderr, question+" [yes/no] ")
	answer := make(chan string, 1)
	go readLine(answer) // a read of a terminal cannot be cut off: it ends with the process
	select {
	case a := <-answer:
		if a = strings.ToLower(strings.TrimSpace(a)); a == "yes" || a == "y" {
			return nil
		}
	case <-env.stop:
		_, _ = fmt.Fprintln(env.stderr)
	}
	return errDeclined
}

// readLine sends what stands before the end of the line. What cannot be read is no yes.
func readLine(answer chan<- string) {
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		line = ""
	}
	answer <- line
}
