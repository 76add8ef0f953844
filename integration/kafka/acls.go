package kafka

import (
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ACL is one right of a kafka-acls command line.
type ACL struct {
	Server    string // --bootstrap-server
	Resource  string // topic | group | transactional-id | cluster
	Name      string
	Operation kadm.ACLOperation
}

// ParseACLs reads the kafka-acls lines of a text, such as the README, and returns them, one ACL for each operation, in order.
// Lines that begin otherwise are passed over; a line with an option that is not known is an error.
func ParseACLs(text string) ([]ACL, error) {
	var all []ACL
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "kafka-acls" {
			continue
		}
		acls, err := parseACL(words[1:])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strings.TrimSpace(line), err)
		}
		all = append(all, acls...)
	}
	return all, nil
}

func parseACL(words []string) ([]ACL, error) {
	var a ACL
	var operations []kadm.ACLOperation
	for i := 0; i < len(words); i++ {
		option := words[i]
		if option == "--add" {
			continue
		}
		if i++; i == len(words) {
			return nil, fmt.Errorf("%s has no value", option)
		}
		switch value := words[i]; option {
		case "--bootstrap-server":
			a.Server = value
		case "--allow-principal":
		case "--operation":
			o, err := kmsg.ParseACLOperation(value)
			if err != nil {
				return nil, err
			}
			operations = append(operations, o)
		case "--topic", "--group", "--transactional-id":
			a.Resource, a.Name = strings.TrimPrefix(option, "--"), value
		default:
			return nil, fmt.Errorf("unknown option %s", option)
		}
	}
	if len(operations) == 0 || a.Resource == "" {
		return nil, errors.New("no operation, or no resource")
	}
	all := make([]ACL, len(operations))
	for i, o := range operations {
		all[i] = a
		all[i].Operation = o
	}
	return all, nil
}
