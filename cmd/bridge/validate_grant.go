package main

import (
	"crypto/tls"
	"fmt"
	"regexp"
	"strings"

	"kafkabridge/connect"
)

// right is one that an operator grants, in Kafka's own words.
type right struct {
	resource  string // topic | group | transactional-id | cluster: kafka-acls' option
	name      string
	operation string // Read, Write, Describe …
}

// iam are the actions of MSK's IAM policies, by resource and operation: AWS_MSK_IAM knows no ACLs.
var iam = map[string]string{
	"topic Read": "kafka-cluster:ReadData", "topic Write": "kafka-cluster:WriteData", "topic Describe": "kafka-cluster:DescribeTopic",
	"topic Create": "kafka-cluster:CreateTopic", "topic Alter": "kafka-cluster:AlterTopic", "topic DescribeConfigs": "kafka-cluster:DescribeTopicDynamicConfiguration",
	"group Read": "kafka-cluster:AlterGroup and kafka-cluster:DescribeGroup", "transactional-id Write": "kafka-cluster:AlterTransactionalId",
	"transactional-id Describe": "kafka-cluster:DescribeTransactionalId", "cluster DescribeConfigs": "kafka-cluster:DescribeClusterDynamicConfiguration",
}

// grant is the command line that gives the rights, all on one resource. Read and Write imply Describe.
func (c *cluster) grant(rights ...right) string {
	r := rights[0]
	if c.o.SASL != nil && c.o.SASL.Mechanism == connect.AWSMSKIAM {
		actions := make([]string, len(rights))
		for i, r := range rights {
			actions[i] = iam[r.resource+" "+r.operation]
		}
		return fmt.Sprintf("allow %s on %s %s in the IAM policy", strings.Join(actions, ", "), r.resource, r.name)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "kafka-acls --bootstrap-server %s --add --allow-principal %s", c.o.Brokers[0], quoted("User:"+c.user()))
	for _, r := range rights {
		b.WriteString(" --operation " + r.operation)
	}
	if r.resource == "cluster" {
		return b.String() + " --cluster"
	}
	return b.String() + " --" + r.resource + " " + quoted(r.name)
}

// unknownUser stands where only the brokers know whom they see.
const unknownUser = "NAME"

// user is whom the brokers see by default, before any mapping rules of theirs.
func (c *cluster) user() string {
	switch s := c.o.SASL; {
	case s != nil && s.Username != "":
		return s.Username
	case s != nil && s.TokenFile != nil:
		if subject := s.TokenFile.Subject(); subject != "" {
			return subject
		}
		return unknownUser
	case s != nil:
		return unknownUser
	case c.o.TLS != nil && c.o.TLS.CertFile != "":
		pair, err := tls.LoadX509KeyPair(c.o.TLS.CertFile, c.o.TLS.KeyFile)
		if err != nil {
			return unknownUser
		}
		return pair.Leaf.Subject.String() // RFC 2253, as Kafka writes it
	}
	return "ANONYMOUS"
}

var harmless = regexp.MustCompile(`^[A-Za-z0-9._:/@%+=,-]+$`)

// quoted makes a word of it for a shell.
func quoted(s string) string {
	if harmless.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
