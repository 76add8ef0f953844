// Package connect turns Options into a kgo client: brokers, TLS, SASL, and limits on every wait. It is the one place that
// holds secrets; nothing that it returns, prints or logs contains one.
//
// The clients are for raw requests and kadm only. kgo's producer and consumer are never used: the producer heals itself by
// InitProducerID, which aborts what two-phase commit has prepared.
package connect
